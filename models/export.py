#!/usr/bin/env python3
"""Exports the models of this folder from PyTorch to ONNX.  Needs torch and onnx (pip install torch onnx onnxscript); nothing else in the project does.

  models/export.py            all of them, into this folder

letters    a small GPT over bytes, for text: what `make demo` trains
flow       a virtual flow meter: Conv1d and GRU over sensors of any number of time steps -> oil, gas and water rates
tracks     a stacked LSTM autoencoder over trajectories of any length
shapes     a small residual CNN with batch norm in training mode, for images of any size
"""
import copy, logging, os, sys, warnings
warnings.filterwarnings('ignore')
logging.disable(logging.WARNING)
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


class Block(nn.Module):
    """Pre-norm transformer block with causal attention, written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, seq, width = x.shape
        q, k, v = self.qkv(self.ln_1(x)).reshape(batch, seq, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5
        weights = scores.masked_fill(mask, -1e9).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class Letters(nn.Module):
    def __init__(self, vocabulary=128, width=96, heads=4, layers=3, longest=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1: nn.init.normal_(p, std=0.04)

    def forward(self, input_ids):
        place = torch.arange(input_ids.shape[1])
        x = self.wte(input_ids) + self.wpe(place)
        mask = place[None, :] > place[:, None]
        for block in self.blocks: x = block(x, mask)
        return self.ln(x) @ self.wte.weight.t()


class Flow(nn.Module):
    def __init__(self, sensors=7, width=16):
        super().__init__()
        self.conv_1 = nn.Conv1d(sensors, width, 5, padding=2)
        self.conv_2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 3))

    def forward(self, sensors):
        x = F.elu(self.conv_2(F.leaky_relu(self.conv_1(sensors.transpose(1, 2)), 0.1))).transpose(1, 2)
        _, last = self.gru(x)
        return self.head(last[-1])


class Tracks(nn.Module):
    def __init__(self, features=6, width=24):
        super().__init__()
        self.encoder = nn.LSTM(features, width, 2, batch_first=True)
        self.decoder = nn.LSTM(width, width, 1, batch_first=True)
        self.out = nn.Linear(width, features)

    def forward(self, trajectory):
        hidden, _ = self.encoder(trajectory)
        hidden, _ = self.decoder(torch.tanh(hidden))
        return self.out(hidden)


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv_1, self.bn_1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv_2, self.bn_2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x): return F.relu(self.bn_2(self.conv_2(F.relu(self.bn_1(self.conv_1(x))))) + self.short(x))


class Shapes(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(Residual(8, 16, 2), Residual(16, 32, 2))
        self.head = nn.Linear(32, classes)

    def forward(self, image): return self.head(self.blocks(F.relu(self.bn(self.stem(image)))).mean((2, 3)))


def by_dynamo(name, model, example, dims):
    dynamic = {axis: torch.export.Dim(dim, min=1, max=4096) for axis, dim in dims.items()}
    program = torch.onnx.export(copy.deepcopy(model), (example,), dynamo=True, dynamic_shapes=(dynamic,), opset_version=18, verbose=False)
    for n in program.model.graph: n.metadata_props.clear()  # stack traces of the exporting machine
    program.save(f'{HERE}/{name}.onnx', external_data=False)


def by_script(name, model, example, dims, input_name, output_name):
    torch.onnx.export(copy.deepcopy(model), (example,), f'{HERE}/{name}.onnx', dynamo=False, input_names=[input_name], output_names=[output_name], opset_version=17,
                      dynamic_axes={input_name: dims, output_name: {0: dims[0]}}, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)


def main():
    torch.manual_seed(0)
    by_script('letters', Letters(), torch.randint(0, 128, (2, 9)), {0: 'batch', 1: 'seq'}, 'input_ids', 'logits')
    by_dynamo('flow', Flow(), torch.randn(2, 11, 7), {0: 'batch', 1: 'time'})
    by_dynamo('tracks', Tracks(), torch.randn(2, 9, 6), {0: 'batch', 1: 'time'})
    by_script('shapes', Shapes(), torch.randn(2, 1, 16, 17), {0: 'batch', 2: 'height', 3: 'width'}, 'image', 'logits')


if __name__ == '__main__':
    sys.exit(main())

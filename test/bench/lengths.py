#!/usr/bin/env python3
"""make bench PARTS=lengths: what it is worth that each step has the length of its batch.

  lengths.py DISC_GEN --python PYTHON_WITH_TORCH [--rounds 3] [--steps 96] [--batch 8]

The demonstration's model (a small GPT over bytes, with a longer table of places) on batches whose lengths are drawn from a log-normal
distribution, median 180, 99th centile 700.  The same program trains on the same text three times: each batch as long as it is, padded
to the longest of all, padded to the next power of two.  Padding is not counted by the loss.  Tokens a second count what is not padding, and seconds
are the processor's, on one thread, start and plans included: another process changes them little."""
import argparse, math, os, random, statistics, subprocess, sys, tempfile
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
import tensors
from timing import processor_seconds

MEDIAN, CENTILE, LONGEST, WORDS, IGNORED = 180, 700, 2048, 128, -100
SPREAD = math.log(CENTILE / MEDIAN) / statistics.NormalDist().inv_cdf(0.99)
EXPORT = '''
import os, sys
sys.path.insert(0, sys.argv[1])
import export, torch
torch.manual_seed(0)
where = os.path.relpath(sys.argv[2], export.HERE)
export.by_script(where, export.Letters(longest=int(sys.argv[3])), torch.randint(0, 128, (2, 9)), {0: 'batch', 1: 'seq'}, 'input_ids', 'logits')
'''


def batches(path, lengths, padded, batch):
    made, words = {}, random.Random(2)
    for k, (length, to) in enumerate(zip(lengths, padded)):
        ids, targets = [], []
        for _ in range(batch):
            text = [words.randrange(WORDS) for _ in range(length + 1)]
            ids += text[:-1] + [0] * (to - length)
            targets += text[1:] + [IGNORED] * (to - length)
        made[f'step{k}.input_ids'] = 'I64', [batch, to], ids
        made[f'step{k}.target'] = 'I64', [batch, to], targets
    tensors.safetensors(path, made)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('disc_gen')
    p.add_argument('--python', default=sys.executable)
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--steps', type=int, default=96)
    p.add_argument('--batch', type=int, default=8)
    args = p.parse_args()
    if subprocess.run([args.python, '-c', 'import torch, onnx'], stderr=subprocess.DEVNULL).returncode:
        sys.exit(f'bench: {args.python} has no torch; make bench PYTHON=..., or: pip install torch onnx')
    draw = random.Random(1)
    lengths = [min(LONGEST, max(2, round(draw.lognormvariate(math.log(MEDIAN), SPREAD)))) for _ in range(args.steps)]
    ways = {'as long as it is': lengths, 'padded to the longest': [max(lengths)] * args.steps, 'padded to powers of two': [1 << (n - 1).bit_length() for n in lengths]}
    with tempfile.TemporaryDirectory(prefix='bench_') as work:
        subprocess.run([args.python, '-c', EXPORT, HERE + '/../../models', work + '/letters', str(LONGEST)], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([args.disc_gen, work + '/letters.onnx', '-o', work + '/built', '--loss', f'cross_entropy(logits, axis=-1, ignore_index={IGNORED})'], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(['make', '-s', '-j2', '-C', work + '/built', 'DEVICE=host'], check=True, stdout=subprocess.DEVNULL)
        rates = {way: [] for way in ways}
        for way, padded in ways.items(): batches(f'{work}/{way}.safetensors', lengths, padded, args.batch)
        for _ in range(args.rounds):
            for way in ways:
                rates[way].append(args.batch * sum(lengths) / processor_seconds([work + '/built/trainer', '--batch-file', f'{work}/{way}.safetensors',
                                                                                 '--steps', str(args.steps), '--variants', 'off', '--progress', 'never'], stderr=subprocess.DEVNULL))
    print(f'{args.steps} batches of {args.batch}, lengths {min(lengths)} to {max(lengths)}, mean {statistics.mean(lengths):.0f}; {args.rounds} rounds')
    for way in ways:
        ratio = statistics.median(own / other for own, other in zip(rates['as long as it is'], rates[way]))
        print(f'{way:24} {statistics.median(rates[way]):8.0f} tokens/s; as long as it is: {ratio:.2f} times as many')


main()

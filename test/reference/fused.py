#!/usr/bin/env python3
"""Trains each model of ../shared/zoo fused and with --no-fuse on the same batches: losses and gradients must agree.

  fused.py DISC_GEN WORK_FOLDER

A loss by 1e-5 of itself, a gradient by 1e-5 of the largest magnitude in its tensor."""
import array, json, os, re, shutil, struct, subprocess, sys

ZOO, TOLERANCE, STEPS = '../shared/zoo', 1e-5, 2
SANITIZERS = os.environ.get('SANITIZERS', '')
OBJECTS = 'objects-host-sanitize' if os.environ.get('SANITIZE') else 'objects-host'  # where a program's Makefile has them


def safetensors(path):
    """The float32 tensors of a file, flat."""
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        rest, tensors = f.read(), {}
    for name, t in head.items():
        if t.get('dtype') == 'F32':
            tensors[name] = array.array('f', rest[t['data_offsets'][0]:t['data_offsets'][1]])
    return tensors


def worst(wanted, found):
    """The largest difference, over the largest magnitude in its tensor, and the tensor's name."""
    off = [(max(map(lambda x, y: abs(x - y), a, found[name]), default=0) / max(max(map(abs, a), default=0), 1e-3), name)
           if len(found.get(name, ())) == len(a) else (float('inf'), name) for name, a in wanted.items()]
    return max(off, default=(float('inf'), 'none'))


def run(command, said):
    with open(said, 'ab') as f:
        if subprocess.call(command, stdout=f, stderr=f, stdin=subprocess.DEVNULL):
            sys.exit(f'failed: {" ".join(command)}; see {said}')


def share_runtime(out, work):
    """The trainer's own files are the same in all programs: their objects are compiled once."""
    for part in ('trainer', 'controller'):
        kept, here = f'{work}/objects/{part}', f'{out}/{OBJECTS}/runtime/{part}'
        if os.path.isdir(kept):
            shutil.copytree(kept, here, copy_function=shutil.copy, dirs_exist_ok=True)


def keep_runtime(out, work):
    for part in ('trainer', 'controller'):
        if not os.path.isdir(f'{work}/objects/{part}'):
            shutil.copytree(f'{out}/{OBJECTS}/runtime/{part}', f'{work}/objects/{part}')


def train(disc_gen, folder, out, more):
    golden = json.load(open(f'{folder}/golden.json'))
    said = f'{out}.said'
    freeze = ['--freeze', '^(' + '|'.join(map(re.escape, golden['frozen'])) + ')$'] if golden.get('frozen') else []
    run([disc_gen, f'{folder}/model.onnx', '-o', out, '--loss', golden['loss'], '--optimizer', 'sgd', '--no-report', *freeze, *more], said)
    share_runtime(out, os.path.dirname(out))
    run(['make', '-s', '-C', out, 'DEVICE=host', 'CFLAGS=-O0', f'HOST_FLAGS=-std=c++17 -O1 -march=native -fopenmp {SANITIZERS}'], said)
    keep_runtime(out, os.path.dirname(out))
    for file in ('losses.jsonl', 'gradients.safetensors'):
        if os.path.exists(f'{out}/{file}'):
            os.remove(f'{out}/{file}')
    run([f'{out}/trainer', '--batch-file', f'{folder}/golden.safetensors', '--steps', str(STEPS), '--lr', '0.01', '--log', f'{out}/losses.jsonl',
         '--save-gradients', f'{out}/gradients.safetensors', '--progress', 'never'], said)
    losses = [json.loads(line)['loss'] for line in open(f'{out}/losses.jsonl') if '"loss"' in line]
    return losses, safetensors(f'{out}/gradients.safetensors')


def main():
    disc_gen, work = sys.argv[1:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    models, failures = sorted(m for m in os.listdir(ZOO) if os.path.exists(f'{ZOO}/{m}/golden.json')), 0
    for model in models:
        fused, unfused = (train(disc_gen, f'{ZOO}/{model}', f'{work}/{model}_{kind}', more) for kind, more in (('fused', []), ('unfused', ['--no-fuse'])))
        loss = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(fused[0], unfused[0]))
        gradient, who = worst(unfused[1], fused[1])
        good = len(fused[0]) == STEPS and len(unfused[1]) > 0 and loss <= TOLERANCE and gradient <= TOLERANCE
        failures += not good
        print(f'{"ok    " if good else "FAILED"} {model}: loss {loss:.1e}, gradient {gradient:.1e} {who}', flush=True)
    sys.exit(failures > 0)


main()

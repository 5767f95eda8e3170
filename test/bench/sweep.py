#!/usr/bin/env python3
"""make bench PARTS=memory: peak and time of a step against the budget, as pictures in docs/: gpt2_10m trained on the processor, and the paper's
llama2_1b planned at sequences of 700.

  sweep.py DISC_GEN [--docs docs] [--points 12] [--steps 8]"""
import argparse, json, os, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import tensors
from chart import Panel, chart
from timing import processor_seconds

ZOO, BENCH = '../shared/zoo/architectures', '../shared/bench'
GIB, MIB = 2.0 ** 30, 2.0 ** 20


def generate(disc_gen, model, folder, *options):
    subprocess.run([disc_gen, model, '-o', folder, *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(['make', '-s', '-j2', '-C', folder, 'DEVICE=host'], check=True, stdout=subprocess.DEVNULL)
    return folder + '/trainer'


def plan(trainer, dims, limit=None):
    command = [trainer, '--plan', '--json', '--offload', 'off'] + (['--memory-limit', str(limit)] if limit else [])
    for name, value in dims.items(): command += ['--dim', f'{name}={value}']
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def budgets(trainer, dims, points):
    """From the least that would do to what a step takes without one."""
    free = plan(trainer, dims)
    least, most = free['minimum_bytes'], free['peak_bytes']
    return [least + (most - least) * i // (points - 1) for i in range(points)]


def save(args, name, text):
    path = f'{args.docs}/{name}.svg'
    with open(path, 'w') as file: file.write(text)
    print(path)


def measured(args, work):
    """One shape of the benchmark's batches, trained within each budget on one thread.  Times are the processor's, of all steps but the first: another
    process changes them little."""
    home = f'{BENCH}/gpt2_10m'
    bench = json.load(open(home + '/bench.json'))
    trainer = generate(args.disc_gen, home + '/' + bench['model'], work + '/gpt2', '--loss', bench['loss'], '--init', bench['init'])
    batch = {k: (v[0], v[1], tensors.numbers(v)) for k, v in tensors.read(home + '/batches.safetensors')[0].items() if k.startswith('step0.')}
    tensors.safetensors(work + '/batch.safetensors', batch)
    log = work + '/log.jsonl'

    def run(limit, steps):
        seconds = processor_seconds([trainer, '--batch-file', work + '/batch.safetensors', '--steps', str(steps), '--memory-limit', str(limit), '--offload', 'off',
                                     '--variants', 'off', '--progress', 'never', '--log', log])
        taken = [s for s in map(json.loads, open(log)) if 'loss' in s]
        os.remove(log)
        return taken[0]['dims'], taken[-1]['peak_bytes'], seconds

    def step(limit):
        return min(run(limit, 1 + args.steps)[2] - run(limit, 1)[2] for _ in range(args.rounds)) / args.steps

    dims = run(1 << 40, 1)[0]
    limits = budgets(trainer, dims, args.points)
    peaks, times = [run(limit, 1)[1] for limit in limits], [step(limit) for limit in limits]
    for limit, peak, seconds in zip(limits, peaks, times): print(f'gpt2_10m {limit / MIB:.1f} MiB: peak {peak / MIB:.1f} MiB, {1e3 * seconds:.1f} ms')
    batch_of = ', '.join(f'{k} {v}' for k, v in dims.items())
    save(args, 'sweep_gpt2_10m', chart('gpt2_10m: a training step within a budget', f'one thread of the processor, {batch_of}, AdamW, float32', '--memory-limit, MiB', [
        Panel('peak, MiB', [('peak', [(x / MIB, y / MIB) for x, y in zip(limits, peaks)])], ('the budget', [(x / MIB, x / MIB) for x in limits])),
        Panel('ms a step', [('processor time', [(x / MIB, 1e3 * y) for x, y in zip(limits, times)])], from_zero=True)]))


def planned(args, work):
    trainer = generate(args.disc_gen, ZOO + '/llama2_1b.onnx', work + '/llama', '--init', 'normal(0.02)')
    peaks, shares = [], []
    for batch in 18, 32, 64:
        dims = {'batch': batch, 'seq': 700}
        limits = budgets(trainer, dims, 2 * args.points)
        plans = [plan(trainer, dims, limit) for limit in limits]
        peaks.append((f'batch {batch}', [(x / GIB, p['peak_bytes'] / GIB) for x, p in zip(limits, plans)]))
        shares.append((f'batch {batch}', [(x / GIB, 100 * (1 + p['recompute_share'])) for x, p in zip(limits, plans)]))
        print(f'llama2_1b batch {batch}: ' + ', '.join(f'{x / GIB:.1f} GiB {p["recompute_share"]:.3f}' for x, p in zip(limits, plans)))
    low, high = min(x for _, line in peaks for x, _ in line), max(x for _, line in peaks for x, _ in line)
    save(args, 'sweep_llama2_1b', chart('llama2_1b: a training step within a budget, as planned', 'sequences of 700, AdamW, float32, nothing copied to the host', '--memory-limit, GiB', [
        Panel('peak, GiB', peaks, ('the budget', [(low, low), (high, high)])),
        Panel('operations, % of unlimited', shares)]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('disc_gen')
    p.add_argument('--docs', default='docs')
    p.add_argument('--points', type=int, default=12)
    p.add_argument('--steps', type=int, default=8)
    p.add_argument('--rounds', type=int, default=3)
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix='bench_') as work:
        for part, needs in (planned, ZOO + '/llama2_1b.onnx'), (measured, BENCH + '/gpt2_10m'):
            if os.path.exists(needs):
                part(args, work)
            else:
                print(f'bench: {needs} is not here: no picture of it')


main()

#!/usr/bin/env python3
"""make bench: trains each model of ../shared/bench with the generated trainer and with PyTorch, in turn, and prints one table.

  bench.py DISC_GEN [--python PYTHON_WITH_TORCH] [--models a,b] [--rounds 3] [--steps 16]

compare.py, beside the models, does the training and the timing; this reads what it prints, and asks the trainer for the plan of a step
(kernels, bytes moved, the least that could be).  A ratio above 1: the trainer is faster.  Peak memory is that of the process."""
import argparse, json, os, re, statistics, subprocess, sys, tempfile

HOME = '../shared/bench'
LONG = {'gpt2_124m': [{'batch': 4, 'seq': 512}]}  # shapes whose plan is printed too, beside the first of the benchmark


def compare(model, args, work):
    """Lines of a run: one a round and mode, then the medians."""
    command = [sys.executable, f'{HOME}/compare.py', model, '--disc-gen', args.disc_gen, '--python', args.python, '--rounds', str(args.rounds),
               '--steps', str(args.steps), '--work', work]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        for line in run.stdout:
            print(line.rstrip(), file=sys.stderr, flush=True)
            lines.append(line)
    if run.returncode:
        sys.exit(f'bench: {" ".join(command)} failed with {run.returncode}')
    rounds = [re.match(r'\S+ trainer ([\d.]+) ms a step, (\d+) MiB; PyTorch (\w+) ([\d.]+) ms, (\d+) MiB', line) for line in lines]
    rounds = [(float(m[1]), int(m[2]), m[3], float(m[4]), int(m[5])) for m in rounds if m]
    last = re.search(r'generate and compile ([\d.]+) s, first step ([\d.]+) s; median ratio (.*)', lines[-1])
    ratios = dict(part.split(' ') for part in last[3].split(', '))
    return rounds, float(last[1]) + float(last[2]), ratios


def plan(trainer, dims):
    command = [trainer, '--plan', '--json']
    for name, value in dims.items():
        command += ['--dim', f'{name}={value}']
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip().split('\n')[-1])


def short(n):
    for unit, size in (('G', 1e9), ('M', 1e6), ('k', 1e3)):
        if n >= size:
            return f'{n / size:.3g} {unit}'
    return str(n)


def table(head, rows):
    widths = [max(len(str(row[i])) for row in [head] + rows) for i in range(len(head))]
    for row in [head, ['-' * w for w in widths]] + rows:
        print('| ' + ' | '.join(str(cell).ljust(w) for cell, w in zip(row, widths)) + ' |')
    print()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('disc_gen')
    p.add_argument('--python', default=sys.executable)
    p.add_argument('--models', default='')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--steps', type=int, default=16)
    args = p.parse_args()
    if not os.path.isdir(HOME):
        print(f'bench: {HOME} is not here: nothing to measure')
        return
    if subprocess.run([args.python, '-c', 'import torch'], stderr=subprocess.DEVNULL).returncode:
        sys.exit(f'bench: {args.python} has no torch; make bench PYTHON=..., or: pip install torch transformers')
    models = args.models.split(',') if args.models else sorted(m for m in os.listdir(HOME) if os.path.exists(f'{HOME}/{m}/bench.json'))
    speed, traffic = [], []
    with tempfile.TemporaryDirectory(prefix='bench_') as work:
        for model in models:
            rounds, start, ratios = compare(model, args, work)
            mine, memory = statistics.median(r[0] for r in rounds), max(r[1] for r in rounds)
            better = min(statistics.median(r[3] for r in rounds if r[2] == mode) for mode in ratios)
            theirs = min(max(r[4] for r in rounds if r[2] == mode) for mode in ratios)
            speed.append([model, f'{mine:.1f}', f'{better:.1f}', *ratios.values(), f'{start:.1f}', memory, theirs, f'{memory / theirs:.2f}'])
            dims = json.load(open(f'{HOME}/{model}/bench.json'))['dims'][0]
            for shape in [dims] + LONG.get(model, []):
                q = plan(f'{work}/{model}/trainer', shape)
                moved, least = q['bytes_moved'], q['least_bytes_moved']
                traffic.append([model, ', '.join(f'{k} {v}' for k, v in shape.items()), q['kernels'], short(moved), short(least), f'{moved / least:.2f}'])
    print(f'{os.cpu_count()} cores; {args.rounds} rounds of {args.steps} steps, medians\n')
    table(['model', 'ms a step', 'PyTorch, better', *(f'ratio to {mode}' for mode in ratios), 'start-up, s', 'peak MiB', 'PyTorch, least', 'share'], speed)
    table(['model', 'step of', 'kernels', 'bytes moved', 'least', 'moved / least'], traffic)


main()

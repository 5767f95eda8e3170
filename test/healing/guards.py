"""Mutates shapes and contents of batches around what the kernels of a program may assume, and drops its guards, one at a time.

  guards.py test FOLDER UNFUSED FILES            FOLDER, a program made ready by `watch`: trained on what mutations there are, each unit compared
                                                 with its operations one by one and kept within its own tensors; UNFUSED, the trainer of
                                                 the same model generated with --no-fuse, takes the same batches, sets the same aside and
                                                 comes to the same weights.  Then each row of controller.c is dropped in turn, and
                                                 some mutation must show that something relied on it.  FILES: a folder for these.
  guards.py sim FOLDER SIMULATED FILES           some of the same batches in the simulator, compared with FOLDER's trainer; kernels with narrow indices
                                                 have 16 bits there, and batches around their limit come, too.  Rows that choose a form of
                                                 kernels are dropped in turn
  guards.py watch FOLDER                         edits a generated program so that DISC_DROP=NAME makes the row NAME hold always

Nothing of it knows a model: dims, inputs and rows are read from controller.c.
"""
import json, os, re, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks, tensors as t
from checks import fail

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65]
USUAL, FEW, MOST_ELEMENTS, TRIES = 8, [0, 1, 2, 3, 4, 5], 40000, 6


# ---- a program whose rows can be dropped ----
def edit(path, old, new):
    text = open(path).read()
    if new in text: return
    if old not in text: sys.exit("%s has no longer: %s" % (path, old))
    open(path, "w").write(text.replace(old, new, 1))


def watch(folder):
    """Where an assumption is asked for: in controller.c, in the step for late dims and the loss, at a launch for the form of its kernel."""
    asked = """#include <stdlib.h>
#include <string.h>
#ifndef DROPPED
#define DROPPED
static inline int dropped(const char *row) /* DISC_DROP: rows, parted by semicolons */
{
    const char *rows = getenv("DISC_DROP");
    const size_t n = strlen(row);
    for (const char *at = rows; at && (at = strstr(at, row)); at += n)
        if ((at == rows || at[-1] == ';') && (at[n] == ';' || !at[n])) return 1;
    return 0;
}
#endif
"""
    edit(folder + "/controller.c", '#include "model.h"', asked + '#include "model.h"')
    edit(folder + "/controller.c", "return (void)a, (void)d, (condition);", "return (void)a, (void)d, (condition) || dropped(#name);")
    edit(folder + "/runtime/controller/step.h", "#include <string.h>\n", asked)
    edit(folder + "/runtime/controller/step.h", "    if (condition) return true;", "    if (condition || dropped(guard)) return true;")
    edit(folder + "/runtime/controller/step.h", "return isfinite(s->loss) ?", 'return isfinite(s->loss) || dropped("finite_loss") ?')
    session = folder + "/runtime/trainer/session.c" # what the trainer asks of inputs on its own, behind the rows
    edit(session, '#include "session.h"\n', '#include "session.h"\n' + asked)
    edit(session, "|| shapes_agree(m, i, s->dims, &s->arrived[i]))", '|| shapes_agree(m, i, s->dims, &s->arrived[i]) || dropped("the trainer\'s own"))')
    edit(session, "input->rank != info->rank)", 'input->rank != info->rank && !dropped("the trainer\'s own"))')
    edit(session, "        int error = device_upload", """        int64_t whole[MAX_RANK] = {0};
        s->model->inputs[i].shape(s->dims, whole);
        if ((int64_t)input->bytes != count_of(s->model->inputs[i].rank, whole) * (int64_t)dtype_bytes((int)s->model->inputs[i].dtype)) {
            fprintf(stderr, "upload: %s does not fill its buffer\\n", s->model->inputs[i].name);
            abort();
        }
        int error = device_upload""")
    edit(session, "#include <math.h>\n", "#include <math.h>\n#include <stdio.h>\n")
    device = folder + "/runtime/device/device_cuda.h"
    edit(device, "#define LAUNCH_FOURS(", asked + "#define LAUNCH_FOURS(")
    edit(device, "launch_of(s, divisible, kernel<NARROW_INDEX, 4>", "launch_of(s, (divisible) || dropped(#divisible), kernel<NARROW_INDEX, 4>")


# ---- what controller.c says ----
def table(text, of):
    """The rows between braces of a table, as lists of C expressions."""
    body = re.search(r"static const %s\[\] = \{\n(.*?)\n\};" % of, text, re.S).group(1)
    rows = [re.findall(r'"[^"]*"|[^,{}\s][^,{}]*', line.split("= ", 1)[-1]) for line in body.split("\n")]
    return [r for r in rows if len(r) > 1]


class Input:
    def __init__(self, row):
        self.name, self.dtype, self.shape = row[0].strip('"'), row[1], [e for e in row[4].strip('"').split(", ") if e]
        self.shape = re.split(r", (?![^(]*\))", row[4].strip('"')) if row[4] != '""' else []
        self.ignore = int(row[-1]) if row[-2] == "true" else None
        self.low, self.high = 0, 1


class Row:
    def __init__(self, text):
        strings = re.findall(r'"([^"]*)"', text)
        self.name, self.moment = re.match(r"\s*G\((\w+), (\w+), ", text).groups()
        self.condition = text.split(", ", 2)[2].split(', "')[0]
        self.formula, self.action = strings[0], re.search(r", (\w+)\)( \\)?$", text).group(1)


class Program:
    def __init__(self, folder):
        text = open(folder + "/controller.c").read()
        self.folder, self.name = folder, os.path.basename(folder)
        self.inputs = [Input(r) for r in table(text, "InputInfo inputs")]
        self.rows = [Row(r) for r in re.search(r"#define GUARDS\(G\) \\\n(.*?)\n\n", text, re.S).group(1).split("\n")]
        symbols = set(re.findall(r"[a-z_]\w*", " ".join(e for i in self.inputs for e in i.shape)))
        self.dims = {r[0].strip('"'): (int(r[1]), int(r[2])) for r in table(text, "DimInfo dims") if r[0].strip('"') in symbols and r[-1] == "false"}
        for row in self.rows:
            within = re.match(r"(-?\d+) <= (\w+) < (\d+)", row.formula)
            for i in self.inputs:
                if within and within.group(2) == i.name: i.low, i.high = int(within.group(1)), int(within.group(3)) - 1

    def shape(self, i, dims):
        known = dict(dims, Min=min, Max=max)
        try: return [eval(e, {}, known) for e in i.shape]
        except ZeroDivisionError: return [0] * len(i.shape)

    def sizes(self, name):
        """Sizes around those that rows tell of this dim."""
        told = {int(n) for r in self.rows for part in re.split(" && | or ", r.formula) if re.fullmatch(r"%s (>=|<=|==) \d+" % name, part) for n in re.findall(r"\d+$", part)}
        return sorted({n for n in SIZES + [k + by for k in told if k < 2000 for by in (-1, 0, 1)] if n >= 0})


def value(formula, dims):
    try: return eval(formula, {}, dict(dims, Min=min, Max=max))
    except (NameError, SyntaxError, ZeroDivisionError): return None # it speaks of contents


# ---- mutations ----
random = t.Random(11)


def tensor(i, shape):
    n = t.product(shape)
    if i.dtype == "BOOL": return ("BOOL", shape, [random.below(3) > 0 for _ in range(n)])
    if i.dtype[0] in "FB": return ("F32" if i.dtype == "F32" else i.dtype, shape, random.reals(n))
    return (i.dtype, shape, [i.low + random.below(i.high - i.low + 1) for _ in range(n)])


def batch(p, dims):
    """None where it would be too large to be worth it."""
    shapes = [p.shape(i, dims) for i in p.inputs]
    if any(n < 0 for s in shapes for n in s) or any(t.product(s) > MOST_ELEMENTS for s in shapes): return None
    return {i.name: tensor(i, s) for i, s in zip(p.inputs, shapes)}


def usual(p, **other): return dict({d: USUAL for d in p.dims}, **other)


def good_batch(p):
    """Of usual sizes, flags all set: what counts them finds as many as there are, so that one thing alone can be wrong with it."""
    return {n: (d, s, [True] * len(v) if d == "BOOL" else v) for n, (d, s, v) in batch(p, usual(p)).items()}


def by_dims(p):
    for d in p.dims:
        for n in p.sizes(d):
            for others in (USUAL, 1):
                yield dict({e: others for e in p.dims}, **{d: n})
    names = sorted(p.dims)
    for k, a in enumerate(names):
        for b in names[k + 1:]:
            for n in FEW:
                for m in FEW: yield usual(p, **{a: n, b: m})
    for _ in range(12): yield {d: 1 + random.below(20) for d in p.dims}


def by_rows(p):
    """Dims on both sides of where a row changes, all of one size, but for a single one."""
    for row in p.rows:
        formula = row.formula.replace(" && ", " and ")
        for small in [None] + list(p.dims):
            dims = [dict({d: n for d in p.dims}, **({small: 1} if small else {})) for n in range(1, 140)]
            for a, b in zip(dims, dims[1:]):
                if {value(formula, a), value(formula, b)} == {True, False}:
                    yield a
                    yield b
                    break


def by_inputs(p):
    """One input alone differs in a size, in rank, in dtype, in content."""
    good = usual(p)
    for i in p.inputs:
        shape = p.shape(i, good)
        for k in range(len(shape)):
            for n in {0, 1, shape[k] - 1, shape[k] + 1, 2 * shape[k]} - {shape[k], -1}:
                yield "%s.shape[%d] = %d" % (i.name, k, n), i, tensor(i, shape[:k] + [n] + shape[k + 1:])
        yield i.name + ", a rank more", i, tensor(i, shape + [1])
        if shape: yield i.name + ", a rank less", i, tensor(i, shape[1:])
        d, s, values = tensor(i, shape)
        yield i.name + ", another dtype", i, ("F32" if d[0] in "IU" else "I32", s, [1] * len(values))
        if not values: continue
        if d[0] in "FB" and d != "BOOL":
            for x in "nan", "inf", "-inf": yield "%s holds %s" % (i.name, x), i, (d, s, [float(x)] + values[1:])
        elif d == "BOOL":
            for x in True, False: yield "%s is %s" % (i.name, x), i, (d, s, [x] * len(values))
        else:
            for x in i.low, i.high, i.low - 1, i.high + 1, 1 << 30, -(1 << 30): yield "%s holds %d" % (i.name, x), i, (d, s, [x] + values[1:-1] + [x] * (len(values) > 1))
            if i.ignore is not None: yield i.name + " holds nothing that counts", i, (d, s, [i.ignore] * len(values))


def mutations(p):
    """What each is, and the batch."""
    seen = set()
    for dims in [d for source in (by_dims, by_rows) for d in source(p)]:
        key = tuple(sorted(dims.items()))
        b = None if key in seen else batch(p, dims)
        seen.add(key)
        if b: yield ", ".join("%s = %d" % x for x in sorted(dims.items())), b
    for what, i, changed in by_inputs(p): yield what, dict(good_batch(p), **{i.name: changed})


# ---- runs ----
RATE = "1e-5" # so little that a batch's loss does not depend on those before it; gradients are seen by what they change all the same


class Run:
    """What a trainer makes of batches: by batch its loss, or the guard that set it aside."""

    def __init__(self, trainer, files, batches, *more, drop="", sim=None):
        log, weights = files + "/log", files + "/weights"
        for path in log, weights:
            if os.path.exists(path): os.remove(path)
        checks.stream(files + "/stream", *batches)
        command = [trainer, "--batch-file", files + "/stream", "--steps", str(len(batches)), "--lr", RATE, "--max-skipped", "100%", "--variants", "off", "--progress", "never",
                   "--log", log, "--save-weights", weights, *more]
        environment = dict(os.environ, DISC_DROP=drop, ASAN_OPTIONS="exitcode=99:detect_leaks=0", UBSAN_OPTIONS="exitcode=99:print_stacktrace=1", **({"DISC_SIM": sim} if sim else {}))
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, timeout=1200)
        self.status, self.said = done.returncode, done.stderr
        lines = checks.lines(log)
        self.loss = {x["step"]: x["loss"] for x in lines if "loss" in x}
        self.aside = {x["step"]: x["guard"] for x in lines if x.get("event") == "set_aside"}
        self.fell_back = checks.events(lines, "fell_back")
        self.other_form = {x["guard"] for x in lines if x.get("event") == "other_form"}
        self.weights = {n: t.numbers(v) for n, v in t.read(weights)[0].items() if v[0] in ("F32", "F64")} if os.path.exists(weights) and not done.returncode else {}

    def reached(self): return max(list(self.loss) + list(self.aside) + [-1]) + 1

    def why(self):
        found = re.search(r"(ERROR: AddressSanitizer: [\w-]+.*|runtime error: .*|upload: .*|sim: .*)", self.said)
        return found.group(1)[:160] if found else self.said[-200:].strip()


class Evaluation(Run):
    """Of batches, without training."""

    def __init__(self, trainer, files, batches, drop=""):
        checks.stream(files + "/stream", *batches)
        environment = dict(os.environ, DISC_DROP=drop, ASAN_OPTIONS="exitcode=99:detect_leaks=0", UBSAN_OPTIONS="exitcode=99:print_stacktrace=1")
        done = subprocess.run([trainer, "--evaluate", "--json", "--batch-file", files + "/stream", "--max-skipped", "100%"], capture_output=True, text=True, errors="replace",
                              env=environment, timeout=1200)
        self.status, self.said, self.weights = done.returncode, done.stderr, {}
        self.aside = {int(k): guard for k, guard in re.findall(r"notice: batch (\d+) set aside: guard (\w+) ", done.stderr)}
        self.loss = {} if done.returncode else {0: json.loads(done.stdout.split("\n")[-2])["loss"]} # of all of them


def near(a, b, by): return a == b or abs(a - b) <= by * max(abs(a), abs(b), 1e-3)


def differs(p, batches, what, one, other):
    """The first thing in which two runs from the same weights differ; None."""
    for k in range(len(batches)):
        if one.aside.get(k) != other.aside.get(k): return "%s: set aside for %s, for %s" % (what[k], one.aside.get(k), other.aside.get(k))
        a, b = one.loss.get(k), other.loss.get(k)
        if (a is None) != (b is None) or a is not None and not near(a, b, 1e-4): return "%s: loss %s, and %s" % (what[k], a, b)
    before = {n: t.numbers(v) for n, v in t.read(p.folder + "/weights.safetensors")[0].items()}
    for name, w in one.weights.items():
        start = before.get(name, [0] * len(w))
        most, top = max((abs(x - y) for x, y in zip(w, start)), default=0), max(map(abs, w), default=0)
        off = max((abs(x - y) if x == x and y == y else float("inf") for x, y in zip(w, other.weights[name])), default=0)
        if not off <= 0.01 * most + 1e-6 * max(top, 1e-3): return "weight %s: changes of %g differ by %g" % (name, most, off)
    return None


OWN = "the trainer's own"
# Rows without which no kernel goes wrong, but makes something that the model does not mean: sizes that all passes take for impossible,
# labels that are mistakes, elements that a Reshape would leave over, more of the best than there are.
MEANING = {"possible", "in_row", "divisible", "sizes_equal", "as_many_to_choose"}


def kind(p, row):
    """sensors_axis_2 -> axis"""
    name = row
    for i in sorted([i.name for i in p.inputs] + list(p.dims), key=len, reverse=True):
        if name.startswith(i + "_"): name = name[len(i) + 1:]; break
    return re.sub(r"^target_(?=in_row)", "", re.sub(r"(_\d+)+$", "", name))


def without(p, kind_of_run, trainer, files, row, batches):
    """What batches that a row had set aside come to without the row; where another one speaks instead, without that one, too."""
    rows, behind = {r.name for r in p.rows}, []
    while True:
        run = kind_of_run(trainer, files, batches, drop=";".join([row] + behind))
        how = "behind " + ", ".join(behind) if behind else ""
        if run.status: return "found", run.why(), how, min(run.reached(), len(batches) - 1)
        wrong = [k for k in sorted(run.loss) if run.loss[k] is None or run.loss[k] != run.loss[k]]
        if wrong: return "found", "the loss is no number", how, wrong[0]
        if any(x != x or abs(x) == float("inf") for w in run.weights.values() for x in w): return "found", "weights are no numbers", how, 0
        speaks = {r if r in rows and r != row and r not in behind else OWN for r in run.aside.values()} - set(behind)
        if not speaks: return "nothing", "", how, 0
        behind += sorted(speaks)


def chosen(steps):
    """A few of them, far apart."""
    return [steps[k * len(steps) // TRIES] for k in range(TRIES)] if len(steps) > TRIES else steps


def same_as_unfused(p, how, batches, what, run, plain):
    name = ", ".join([p.name] + how)
    if run.status: fail("%s: %s: %s" % (name, what[min(run.reached(), len(what) - 1)], run.why() + run.said[-2000:]))
    for e in run.fell_back: fail("%s: %s: %s of %s: %s" % (name, what[e["step"]], e["guard"], e["kernel"], e.get("detail")))
    off = None if run.status or plain.status else differs(p, batches, what, run, plain)
    if off: fail("%s: with and without fusing: %s" % (name, off))


def test(folder, unfused, files):
    p = Program(folder)
    trainer = folder + "/trainer"
    what, batches = zip(*mutations(p))
    plain = Run(unfused, files, batches)
    if plain.status: fail("%s, unfused: %s: %s" % (p.name, what[min(plain.reached(), len(what) - 1)], plain.said[-500:]))
    lean = ["--lean", "on", "--row-blocks", "3"] # blocks of rows
    if any(r.name == "train_lean_indices" for r in p.rows): same_as_unfused(p, lean, batches, what, Run(trainer, files, batches, *lean), plain)
    run = Run(trainer, files, batches, "--verify-every", "1")
    same_as_unfused(p, [], batches, what, run, plain)
    evaluated, evaluated_plain = [Evaluation(x, files, batches) for x in (trainer, unfused)]
    if evaluated.status: fail("%s, evaluated: %s" % (p.name, evaluated.why()))
    elif not evaluated_plain.status and not near(evaluated.loss[0] or 0, evaluated_plain.loss[0] or 0, 1e-4): fail("%s, evaluated: loss %s, unfused %s" % (p.name, evaluated.loss[0], evaluated_plain.loss[0]))
    print("%s: %d batches, %d trained, %d set aside by %d rows" % (p.name, len(batches), len(run.loss), len(run.aside), len(set(run.aside.values()))))
    good = good_batch(p)
    needed, reached = set(), set() # reached: rows that spoke where another had been dropped, and were found to be needed there
    for row in p.rows:
        if row.action != "SET_ASIDE": continue
        of_training, of_evaluation = [[k for k in r.aside if r.aside[k] == row.name] for r in (run, evaluated)]
        steps = chosen(of_training or of_evaluation)
        found, why, behind, k = without(p, Run if of_training else Evaluation, trainer, files, row.name, [batches[k] for k in steps] + [good]) if steps else ("never broken", "", "", 0)
        if found == "found" and behind: reached |= set(behind[7:].split(", "))
        if not steps and row.name in reached: found, why = "found", "where another row was dropped"
        twin = re.sub(r"_\d+$", "", row.name) # of a late dim that training and evaluation each have for themselves; an evaluation has no fences
        if found == "nothing" and not of_training and twin in needed: found, why = "found", "in training, as " + twin
        if found == "found": needed.add(row.name)
        print("    %-26s %-8s %s" % (row.name, found, "; ".join(x for x in (what[steps[min(k, len(steps) - 1)]] if steps else "", behind, why) if x)))
        if found == "found" or found == "nothing" and kind(p, row.name) in MEANING: continue
        fail("%s: %s: %s: %s" % (p.name, {"never broken": "no mutation breaks it", "nothing": "nothing relies on it"}.get(found, found), row.name, row.formula))


# ---- forms of kernels ----
LIMIT, BEYOND = 32000, 36000 # indices of 16 bits: with the steps of a loop over two blocks of 64 threads, four elements each, past its end; surely too many
ORDER = "seed=1,threads=64,blocks=2"


def reach(row, dims):
    """The greatest index that a row of indices speaks of; rows in a block aside."""
    return max([n for n in (value(part.lstrip(", "), dims) for part in row.formula.split(" <= INDEX_LIMIT")[:-1]) if n is not None], default=0)


def around_limit(p, row):
    """Dims with the greatest index within the limit, and the least beyond, one dim made large at a time."""
    for d in p.dims:
        for others in (1, 4, 16):
            dims = [usual(p, **dict({e: others for e in p.dims}, **{d: n})) for n in range(1, 4000)]
            within = [x for x in dims if reach(row, x) <= LIMIT]
            beyond = [x for x in dims if reach(row, x) > BEYOND]
            both = [b for b in (batch(p, x) for x in within[-1:] + beyond[:1]) if b]
            if within and beyond and len(both) == 2:
                yield within[-1], both[0]
                yield beyond[0], both[1]
                break


def conditions_of_fours(p):
    """What launches ask, in the words of model.cu: by row, whose order is theirs."""
    text = re.sub(r"\s+", " ", open(p.folder + "/model.cu").read())
    asked = list(dict.fromkeys(re.findall(r"(?:LAUNCH|EPILOGUE)_FOURS\(s, \w+, (.*?), (?:rows|elements|fours)\(", text)))
    rows = [r.name for r in p.rows if r.action == "SINGLE_ELEMENTS"]
    if len(asked) != len(rows): sys.exit("%s: %s for the rows %s" % (p.name, asked, rows))
    return dict(zip(rows, asked))


def sim(folder, simulated, files):
    p = Program(folder)
    fours_asked = conditions_of_fours(p)
    small = [(d, b) for d, b in ((d, batch(p, d)) for d in by_dims(p)) if b and sum(len(x[2]) for x in b.values()) < 1000]
    dims, batches = zip(*small[::max(1, len(small) // 40)])
    wide = [r for r in p.rows if r.action == "WIDE_INDICES" and r.name == "train_indices"]
    edges = [e for row in wide for e in around_limit(p, row)]
    dims, batches = list(dims) + [d for d, _ in edges], list(batches) + [b for _, b in edges]
    what = [", ".join("%s = %d" % x for x in sorted(d.items())) for d in dims]
    host, run = Run(folder + "/trainer", files, batches), Run(simulated, files, batches, sim=ORDER)
    if host.status or run.status: fail("%s: %s" % (p.name, (host.said + run.said)[-3000:]))
    for e in run.fell_back: fail("%s: %s: %s: %s" % (p.name, what[e["step"]], e["kernel"], run.said[-600:]))
    off = None if host.status or run.status else differs(p, batches, what, run, host)
    if off: fail("%s: simulated and on the processor: %s" % (p.name, off))
    print("%s: %d batches simulated, %d trained, %d around the limit of indices" % (p.name, len(batches), len(run.loss), len(edges)))
    for row in p.rows:
        narrow, fours = row in wide, row.action == "SINGLE_ELEMENTS"
        if not narrow and not fours: continue
        broken = [k for k in range(len(batches)) if k in run.loss and (reach(row, dims[k]) > LIMIT if narrow else not value(row.formula.replace("== 0, ", "== 0 and "), dims[k]))]
        found, why = "never broken", ""
        for k in chosen(broken):
            one = Run(simulated, files, [batches[k]], sim=ORDER, drop=row.name if narrow else fours_asked[row.name])
            alone = Run(folder + "/trainer", files, [batches[k]])
            found, why = "nothing", what[k]
            if one.status or one.fell_back: found, why = "found", what[k] + ": " + one.why()
            elif differs(p, [batches[k]], [what[k]], one, alone): found, why = "found", differs(p, [batches[k]], [what[k]], one, alone)
            if found == "found": break
        print("    %-26s %-8s %s" % (row.name, found, why))
        if found != "found": fail("%s: %s: %s: %s" % (p.name, found, row.name, row.formula))


if __name__ == "__main__":
    {"test": test, "sim": sim, "watch": watch}[sys.argv[1]](*sys.argv[2:])
    checks.finish()

"""Streams with one batch that is wrong: what the log tells of it, and that all other steps are those of a stream without it.

anomalies.py FOLDER WINDOW NARROW TOKENS CHOSEN MATCHED PYRAMID CHOICE HALVES BEST COMPUTED PLACES      trainers; NARROW: of the same model as WINDOW, its time declared as 8 to 12
"""
import os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks, tensors as t
from checks import fail

folder, window, narrow, tokens, chosen, matched, pyramid, choice, halves, best, computed, places = sys.argv[1:]
r = t.Random(3)


def path(name): return os.path.join(folder, name)


def stream(name, *batches): checks.stream(path(name), *batches)


def run(trainer, name, *more, status=0):
    """The steps' losses and the events of a run over the stream."""
    command = [trainer, "--batch-file", path(name), "--progress", "never", "--log", path("log"), "--max-skipped", "90%", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != status: fail("%s: exit status %d, wanted %d: %s" % (name, done.returncode, status, done.stderr))
    log = checks.lines(path("log"))
    return checks.losses(log), checks.events(log), done


def window_batch(batch=2, time=10, channels=3, dtype="F32"):
    return {"x": (dtype, [batch, channels, time], [round(8 * v) / 8 for v in r.reals(batch * channels * time)]), "target": ("F32", [batch, 2], r.reals(batch * 2))}


def tokens_batch(batch=2, seq=6, mask=None, highest=11, label=None):
    n, mask = batch * seq, seq if mask is None else mask
    ids, labels = r.ints(n, 11), r.ints(n, 3) if label is None else [label] * n
    if n: ids[n // 2] = highest - 1
    return {"ids": ("I64", [batch, seq], ids), "mask": ("F32", [batch, mask], [1.0] * (batch * mask)), "target": ("I64", [batch, seq], labels)}


def chosen_batch(flags): return {"x": ("F32", [len(flags), 4], r.reals(4 * len(flags))), "flag": ("BOOL", [len(flags)], flags), "target": ("F32", [3], r.reals(3))}


def matched_batch(flags, rows): return dict(chosen_batch(flags), z=("F32", [rows, 3], r.reals(3 * rows)))


def image_batch(height, width, batch=2):
    return {"x": ("F32", [batch, 2, height, width], r.reals(batch * 2 * height * width)), "target": ("F32", [batch, 2], r.reals(batch * 2))}


def halves_batch(time, batch=2): return {"x": ("F32", [batch, time, 2], r.reals(batch * time * 2)), "target": ("F32", [2], r.reals(2))}


def computed_batch(*places): return {"x": ("F32", [2], list(map(float, places))), "target": ("F32", [2, 2], r.reals(4))}


def places_batch(**at):
    """Each place is 1, but for those given."""
    return {"x": ("F32", [2, 4, 2], r.reals(16)), "at": ("F32", [10], [float(at.get("_%d" % k, 1)) for k in range(10)]), "target": ("F32", [10], r.reals(10))}


def choice_batch(time, batch=4): return {"x": ("F32", [batch, 3, time], r.reals(batch * 3 * time)), "target": ("F32", [batch, 3], r.reals(batch * 3))}


def changed(batch, name, **how):
    dtype, shape, values = batch[name]
    return dict(batch, **{name: (how.get("dtype", dtype), how.get("shape", shape), how.get("values", values))})


def set_aside(what, trainer, guard, good, bad):
    """The bad one between good ones is set aside for that guard, kept with its reason, and changes nothing."""
    stream("clean", *good)
    stream("stream", *good[:2], bad, *good[2:])
    wanted, none, _ = run(trainer, "clean", "--save-weights", path("clean.weights"))
    found, events, done = run(trainer, "stream", "--save-weights", path("stream.weights"), "--quarantine", path("kept/of " + what))
    if none: fail("%s: a clean run has events %s" % (what, none))
    if found != wanted: fail("%s: losses %s, without that batch %s" % (what, found, wanted))
    if open(path("clean.weights"), "rb").read() != open(path("stream.weights"), "rb").read(): fail(what + ": the weights differ")
    if [(e["event"], e.get("guard"), e.get("step")) for e in events[:-1]] != [("set_aside", guard, 2)]: fail("%s: events %s" % (what, events))
    summary = events[-1] if events else {}
    if summary != {"event": "summary", "batches": len(good) + 1, "trained": len(good), "set_aside": 1, "events": [{"event": "set_aside", "about": guard, "n": 1}]}:
        fail("%s: summary %s" % (what, summary))
    if "1 batch set aside (%s 1)" % guard not in done.stdout: fail("%s: said %s" % (what, done.stdout))
    if os.listdir(path("kept/of " + what)) != ["batch2.safetensors"]: fail("%s: kept %s" % (what, os.listdir(path("kept/of " + what))))
    kept, reason = t.read(path("kept/of " + what + "/batch2.safetensors"))
    for name, (dtype, shape, values) in bad.items():
        if kept["step0." + name] != (dtype, shape, t.pack(dtype, values)): fail("%s: %s is kept as %s" % (what, name, kept["step0." + name][:2]))
    if (reason["index"], reason["guard"]) != ("2", guard) or not reason["formula"]: fail("%s: kept with %s" % (what, reason))
    stopped, events, _ = run(trainer, "stream", "--on-anomaly", "stop", "--checkpoint", path("stopped"), status=4)
    if stopped != wanted[:2] or [e["event"] for e in events] != ["stopped", "summary"]: fail("%s: stopped after %s, %s" % (what, stopped, events))
    if t.read(path("stopped/checkpoint.safetensors"))[1]["step"] != "2": fail(what + ": the checkpoint of a stop is not of its step")


def trains(what, trainer, batches, events=(), same_as=None):
    """All of them train; losses are those of another trainer or stream."""
    stream("stream", *batches)
    found, seen, done = run(trainer, "stream")
    if len(found) != len(batches) or done.stderr.count("set aside"): fail("%s: %d of %d batches: %s" % (what, len(found), len(batches), done.stderr))
    if [(e["event"], e.get("guard"), e.get("step")) for e in seen if e["event"] != "summary"] != list(events): fail("%s: events %s" % (what, seen))
    if same_as:
        other, others = same_as
        stream("other", *others)
        wanted = run(other, "other")[0]
        if found != wanted: fail("%s: losses %s, wanted %s" % (what, found, wanted))


windows = [window_batch(2, 10), window_batch(3, 8), window_batch(1, 12), window_batch(2, 9)]
# beyond and below the declared range, and a batch of 1: right at once, with a plan for their dims; as a program that declared more
odd = [window_batch(2, 30), window_batch(2, 5), window_batch(1, 10)]
trains("beyond and below the range", narrow, windows[:2] + odd + windows[2:], [("planned_again", "time_range", 2), ("planned_again", "time_range", 3)],
       (window, windows[:2] + odd + windows[2:]))
trains("float16", window, windows[:1] + [changed(windows[1], "x", dtype="F16")] + windows[2:], (), (window, windows))
trains("nothing chosen", chosen, [chosen_batch([True, False, True]), chosen_batch([False, False]), chosen_batch([True, True])])

set_aside("batch of 0", window, "batch_possible", windows, window_batch(0))
set_aside("shorter than the kernel", window, "size_not_negative", windows, window_batch(2, 3))
set_aside("a mean of nothing", window, "finite_loss", windows, window_batch(2, 4))
set_aside("no time at all", window, "time_possible", windows, window_batch(2, 0))
set_aside("a channel missing", window, "x_axis_1", windows, window_batch(2, 10, channels=2))
set_aside("a rank less", window, "x_rank", windows, changed(windows[0], "x", shape=[2, 30]))
set_aside("a rank more", window, "x_rank", windows, changed(windows[0], "x", shape=[2, 3, 10, 1]))
set_aside("integers for floats", window, "x_dtype", windows, changed(windows[0], "x", dtype="I32", values=[3] * 60))
set_aside("a NaN", window, "x_finite", windows, changed(windows[0], "x", values=[float("nan")] + windows[0]["x"][2][1:]))
set_aside("an infinite target", window, "target_finite", windows, changed(windows[0], "target", values=[float("inf")] * 4))
set_aside("a target less", window, "target_axis_0", windows, changed(windows[0], "target", shape=[1, 2], values=[0.0, 1.0]))

texts = [tokens_batch(), tokens_batch(3, 4), tokens_batch(1, 8), tokens_batch(4, 1)]
set_aside("mask and ids differ", tokens, "mask_axis_1", texts, tokens_batch(2, 6, mask=5))
set_aside("beyond the vocabulary", tokens, "ids_in_table", texts, tokens_batch(highest=12))
set_aside("below the vocabulary", tokens, "ids_in_table", texts, tokens_batch(highest=-11))
set_aside("all labels ignored", tokens, "some_target", texts, tokens_batch(label=-100))
set_aside("a label that is none", tokens, "target_in_row", texts, tokens_batch(label=3))
set_aside("labels that are floats", tokens, "target_dtype", texts, changed(tokens_batch(), "target", dtype="F32", values=[1.0] * 12))

matches = [matched_batch([True, False, True], 2), matched_batch([True], 1), matched_batch([True, True], 2)]
trains("a late dim that fits", matched, matches)
set_aside("more chosen than there is room for", matched, "found_as_many", matches, matched_batch([True, False, True], 1))
set_aside("fewer chosen", matched, "found_as_many", matches, matched_batch([True, False, True], 3))

images = [image_batch(4, 6), image_batch(2, 2), image_batch(5, 4), image_batch(8, 8)]
set_aside("no rows in the pool", pyramid, "some_to_pick", images, image_batch(1, 4))
set_aside("no columns in the pool", pyramid, "some_to_pick_2", images, image_batch(4, 1))
choices = [choice_batch(8), choice_batch(13), choice_batch(11), choice_batch(40)]
set_aside("none to choose", choice, "some_to_choose", choices, choice_batch(3))
set_aside("fewer than are chosen", choice, "as_many_to_choose", choices, choice_batch(7))
set_aside("the best of none", best, "some_to_choose", [chosen_batch([True, False, True]), chosen_batch([True]), chosen_batch([False, True])], chosen_batch([False, False]))
for outside in 8, -9, 1e15: set_aside("computed %g" % outside, computed, "finite_loss", [computed_batch(0, 7), computed_batch(-1, -8), computed_batch(3, 3)], computed_batch(2, outside))
# ReverseSequence, GridSample (a NaN), GatherElements, GatherND, ScatterElements, ScatterND, RotaryEmbedding, RoiAlign, MaxUnpool, TensorScatter
good = [places_batch(), places_batch(_0=4, _2=3, _3=-4, _4=3, _5=0, _6=7, _7=0, _8=3, _9=3), places_batch(_0=0)]
for k, beyond in enumerate([(5, -1), (-1,), (4, -5), (4, -5), (4, -5), (4, -5), (8, -9), (2, -1), (4, -1), (4, -1)]):
    for outside in beyond: set_aside("place %d at %d" % (k, outside), places, "finite_loss", good, places_batch(**{"_%d" % k: outside}))
set_aside("a division by half of 1", halves, "divisor_not_zero", [halves_batch(4), halves_batch(2), halves_batch(6)], halves_batch(1))

# more than may be: judged at the hundredth batch, with a checkpoint of that place
stream("stream", *windows, window_batch(2, 4))
done = subprocess.run([window, "--batch-file", path("stream"), "--steps", "400", "--progress", "never", "--checkpoint", path("many"), "--max-skipped", "19%"],
                      capture_output=True, text=True, timeout=120)
if done.returncode != 4 or "20 of 100 batches were set aside" not in done.stderr: fail("too many: status %d: %s" % (done.returncode, done.stderr[-300:]))
if (lambda m: (m["step"], m["skipped"]))(t.read(path("many/checkpoint.safetensors"))[1]) != ("100", "20"): fail("too many: its checkpoint is of another place")
checks.finish()

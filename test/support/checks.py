"""What scripts that run trainers and read their logs share: failures that are told and counted, batches as a stream, lines of a log."""
import json, sys
import tensors as t

failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text)


def finish(): sys.exit(bool(failures))


def stream(path, *batches):
    """A file for --batch-file: a batch is {name: (dtype, shape, values)}."""
    t.safetensors(path, {"step%d.%s" % (k, n): v for k, b in enumerate(batches) for n, v in b.items()})


def lines(path):
    """A log's lines so far, without one that is being written; none where there is no log yet."""
    try:
        with open(path) as f: return [json.loads(x) for x in f if x.endswith("\n")]
    except FileNotFoundError: return []


def losses(log): return [x["loss"] for x in log if "loss" in x]


def events(log, beginning=""): return [x for x in log if "event" in x and x["event"].startswith(beginning)]

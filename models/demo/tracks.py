"""Tracks, for models/demo/sensors.sh:   tracks.py make FOLDER [RECORDING.csv]     writes train.safetensors, a stream of batches of windows of any
length, some of them broken, and test.safetensors, whole tracks of which a third behave oddly;   tracks.py score FOLDER    reads what the
runner made of them, prints the area under the ROC curve, and draws errors.svg.

A track: position, velocity and acceleration in a plane, 24 steps of a car that turns and changes its speed.  Odd ones: it jumps, its
position freezes while it drives on, or it zigzags.

With a recording they are real: windows of the first six columns of numbers, each less its mean and over its deviation; the first half trains, the
second half tests.  What its column is_anomaly marks never trains and is scored as "marked"; into a third of the other windows a jump, a freeze or
a zigzag of three sensors is put.
"""
import csv, math, os, random, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "support"))
import tensors as t

STEPS, FEATURES = 24, 6


def track(r, odd=None):
    x = y = 0.0
    heading, speed, turn, push = r.uniform(-math.pi, math.pi), r.uniform(.3, 1), r.uniform(-.15, .15), r.uniform(-.02, .02)
    at, rows, last = r.randrange(6, 18), [], None
    for k in range(STEPS):
        heading, speed = heading + turn, max(.1, speed + push)
        way = heading + (1.2 if k % 2 else -1.2) if odd == "zigzag" and k >= at else heading
        v = (speed * math.cos(way), speed * math.sin(way))
        x, y = x + .1 * v[0], y + .1 * v[1]
        if odd == "jump" and k == at: x, y = x + r.choice((-1.5, 1.5)), y + r.choice((-1.5, 1.5))
        place = rows[at][:2] if odd == "frozen" and k > at else [x, y]
        a = (v[0] - last[0], v[1] - last[1]) if last else (0.0, 0.0)
        if odd == "frozen" and k > at: v, a = (0.0, 0.0), (-3 * v[0], -3 * v[1])
        last, noise = v, [r.gauss(0, .01) for _ in range(FEATURES)]
        rows.append([p + q for p, q in zip(place + [v[0], v[1], 3 * a[0], 3 * a[1]], noise)])
    return rows


def batch(tracks):
    values = [v for rows in tracks for row in rows for v in row]
    one = ("F32", [len(tracks), len(tracks[0]), FEATURES], values)
    return {"trajectory": one, "target": one}


class Recording:
    """Windows of STEPS rows of a CSV file, cut anywhere in its first half, or one after the other in its second."""

    def __init__(self, path):
        table = list(csv.DictReader(open(path)))
        names = [k for k in list(table[0])[1:] if k != "is_anomaly"][:FEATURES]
        columns = [[float(row[k]) for row in table] for k in names]
        half = len(table) // 2
        for c in columns:
            mean = sum(c[:half]) / half
            deviation = math.sqrt(sum((v - mean) ** 2 for v in c[:half]) / half) or 1.0
            c[:] = [(v - mean) / deviation for v in c]
        self.rows, self.half = [list(row) for row in zip(*columns)], half
        self.marked = [float(row.get("is_anomaly") or 0) != 0 for row in table]
        self.usual = [k for k in range(half - STEPS) if not any(self.marked[k:k + STEPS])]
        print("%s: %d rows, %d of them marked as anomalies" % (os.path.basename(path), len(table), sum(self.marked)))

    def track(self, r):
        first = r.choice(self.usual)
        return self.rows[first:first + STEPS]

    def tests(self, r):
        for i, first in enumerate(range(self.half, len(self.rows) - STEPS + 1, STEPS)):
            rows = [list(row) for row in self.rows[first:first + STEPS]]
            if any(self.marked[first:first + STEPS]):
                yield rows, "marked"
                continue
            odd, at, sensors = (None, None, "jump", None, None, "frozen", None, None, "zigzag")[i % 9], r.randrange(6, 18), r.choice((range(3), range(3, 6)))
            for k in range(at, STEPS):
                for j in sensors:
                    if odd == "jump": rows[k][j] += 2
                    if odd == "frozen": rows[k][j] = rows[at - 1][j]
                    if odd == "zigzag": rows[k][j] += -1 if k % 2 else 1
            yield rows, odd


def make(folder, recording=None):
    r = random.Random(1)
    stream, real = {}, Recording(recording) if recording else None
    for k in range(250):
        n = r.randrange(10, STEPS + 1)
        b = batch([(real.track(r) if real else track(r))[:n] for _ in range(16)])
        if k % 50 == 20: b["trajectory"] = ("F32", b["trajectory"][1], [float("nan")] + b["trajectory"][2][1:])            # a sensor drops out
        if k % 50 == 40: b["trajectory"] = ("F32", [16, n, FEATURES - 1], b["trajectory"][2][:16 * n * (FEATURES - 1)])     # a channel is missing
        stream.update({"step%d.%s" % (k, name): v for name, v in b.items()})
    t.safetensors(folder + "/train.safetensors", stream)
    kinds = [None] * 200 + ["jump", "frozen", "zigzag"] * 33
    tracks, kinds = zip(*real.tests(r)) if real else ([track(r, odd) for odd in kinds], kinds)
    t.safetensors(folder + "/test.safetensors", {"trajectory": batch(tracks)["trajectory"]})
    open(folder + "/kinds", "w").write("\n".join(k or "normal" for k in kinds))


def area(normal, odd): return sum((o > n) + (o == n) / 2 for o in odd for n in normal) / len(normal) / len(odd)


def draw(path, errors, kinds):
    top, colours = max(errors), {"normal": "#4477aa", "jump": "#ee6677", "frozen": "#ccbb44", "zigzag": "#aa3377", "marked": "#000000"}
    dots = "".join('<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>' % (20 + 2.2 * i, 210 - 190 * math.sqrt(e / top), colours[k]) for i, (e, k) in enumerate(zip(errors, kinds)))
    words = "".join('<text x="%d" y="235" fill="%s">%s</text>' % (20 + 110 * i, c, k) for i, (k, c) in enumerate(colours.items()))
    open(path, "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="700" height="245" font-family="sans-serif" font-size="12"><text x="20" y="14">'
                          'error of reconstruction (square root), a dot a track</text>%s%s</svg>\n' % (dots, words))


def score(folder):
    made = t.numbers(next(iter(t.read(folder + "/made.safetensors")[0].values())))
    given = t.numbers(t.read(folder + "/test.safetensors")[0]["trajectory"])
    kinds, size = open(folder + "/kinds").read().split(), STEPS * FEATURES
    errors = [sum((a - b) ** 2 for a, b in zip(made[i * size:(i + 1) * size], given[i * size:(i + 1) * size])) / size for i in range(len(kinds))]
    of = lambda *wanted: [e for e, k in zip(errors, kinds) if k in wanted]
    odd = [k for k in ("jump", "frozen", "zigzag", "marked") if k in kinds]
    for kind in odd: print("%s: area under the ROC curve %.3f" % (kind, area(of("normal"), of(kind))))
    print("all: area under the ROC curve %.3f" % area(of("normal"), of(*odd)))
    draw(folder + "/errors.svg", errors, kinds)


{"make": make, "score": score}[sys.argv[1]](*sys.argv[2:])

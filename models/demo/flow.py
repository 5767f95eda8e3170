"""Simulated oil wells, for models/demo/sensors.sh:   flow.py make FOLDER     writes train.safetensors, a stream of batches of sensor windows of any
length, some of them broken, and test.safetensors, windows of wells that were never trained on;   flow.py score FOLDER    compares rates that
the runner computed with the true ones, prints how much of their variance is explained, and draws rates.svg.

A well's seven sensors: pressure and temperature at the bottom, at the head and behind the choke, and the choke's opening.  What flows, oil,
gas and water, follows from the well's pressure, its water cut and gas-oil ratio, and how the choke is moved; nobody measures it.
"""
import math, os, random, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "support"))
import tensors as t

SENSORS, RATES = 7, ("oil", "gas", "water")


def window(r, steps):
    """A window of readings, and the rates at its end; everything scaled to about -1 to 1."""
    reservoir, cut, ratio = r.uniform(.6, 1.4), r.uniform(.05, .6), r.uniform(.5, 1.5)
    choke, liquid, rows = r.uniform(.2, 1), 0.0, []
    for k in range(steps + 12):
        if r.random() < .08: choke = min(1, max(.1, choke + r.uniform(-.3, .3)))
        aim = choke * math.sqrt(reservoir) * (1 - .3 * cut)
        liquid += .3 * (aim - liquid) if k else aim
        oil, water = liquid * (1 - cut), liquid * cut
        gas = ratio * oil
        bottom, head = reservoir - .4 * liquid, reservoir - .5 * liquid - .2 * water + .15 * gas
        readings = [bottom, .8 + .2 * water, head, .5 + .3 * liquid + .3 * water, .3 * head + .1 * gas, .4 + .3 * liquid - .2 * gas, choke]
        rows.append([2 * v - 1 + r.gauss(0, .01) for v in readings])
    return rows[12:], [2 * oil - 1, 2 * gas - 1, 4 * water - 1]


def batch(r, n, steps):
    made = [window(r, steps) for _ in range(n)]
    return {"sensors": ("F32", [n, steps, SENSORS], [v for rows, _ in made for row in rows for v in row]),
            "target": ("F32", [n, 3], [v for _, rates in made for v in rates])}


def make(folder):
    r = random.Random(2)
    stream = {}
    for k in range(300):
        n = r.randrange(8, 49)
        b = batch(r, 32, n)
        dtype, shape, values = b["sensors"]
        if k % 60 == 15: b["sensors"] = (dtype, shape, values[:500] + [float("nan")] * 40 + values[540:])              # a sensor drops out
        if k % 60 == 35: b["sensors"] = (dtype, [32, n, SENSORS - 1], values[:32 * n * (SENSORS - 1)])                  # a channel is missing
        if k % 60 == 55: b["sensors"] = (dtype, [32, 0, SENSORS], [])                                                   # nothing came
        stream.update({"step%d.%s" % (k, name): v for name, v in b.items()})
    t.safetensors(folder + "/train.safetensors", stream)
    test = batch(r, 300, 32)
    t.safetensors(folder + "/test.safetensors", {"sensors": test["sensors"]})
    t.safetensors(folder + "/true.safetensors", {"rates": test["target"]})


def draw(path, true, made):
    at = lambda v: 20 + 105 * (v + 1)
    parts = []
    for k, name in enumerate(RATES):
        dots = "".join('<circle cx="%.1f" cy="%.1f" r="2" fill="#4477aa"/>' % (at(a), 250 - at(b)) for a, b in zip(true[k::3], made[k::3]))
        parts.append('<g transform="translate(%d 0)"><path d="M20 230L230 20" stroke="#bbb"/>%s<text x="20" y="14">%s</text></g>' % (240 * k, dots, name))
    open(path, "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="740" height="255" font-family="sans-serif" font-size="12">%s'
                          '<text x="20" y="250">true rate to the right, computed upwards</text></svg>\n' % "".join(parts))


def score(folder):
    made = t.numbers(next(iter(t.read(folder + "/made.safetensors")[0].values())))
    true = t.numbers(t.read(folder + "/true.safetensors")[0]["rates"])
    for k, name in enumerate(RATES):
        mean = sum(true[k::3]) / len(true[k::3])
        off, all_of_it = sum((a - b) ** 2 for a, b in zip(true[k::3], made[k::3])), sum((a - mean) ** 2 for a in true[k::3])
        print("%s: %.3f of the variance explained" % (name, 1 - off / all_of_it))
    draw(folder + "/rates.svg", true, made)


{"make": make, "score": score}[sys.argv[1]](sys.argv[2])

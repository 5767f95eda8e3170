"""symbolic_fuzz's pairs, judged by z3: python3 test/fuzz/judge.py < PAIRS.  Every answer but ? must follow from the ranges."""
import re, sys
import z3


def floordiv(a, b): return z3.If(b > 0, a / b, -a / -b)  # z3's division leaves a remainder that is not negative


def least(a, b): return z3.If(a < b, a, b)


def most(a, b): return z3.If(a > b, a, b)


def judge(line):
    """None where z3 finds no answer in time"""
    world, sign, a, b = line.rstrip("\n").split("\t")
    defined, symbols = [], {}
    solver = z3.Solver()
    solver.set("timeout", 1000)
    for entry in world.split(";"):
        name, low, high, divisor = entry.split()
        x = symbols[name] = z3.Int(name)
        solver.add(x >= int(low), x <= int(high), x % int(divisor) == 0)

    def divide(p, q):
        defined.append(q != 0)
        return floordiv(p, q)

    names = dict(symbols, add=lambda p, q: p + q, sub=lambda p, q: p - q, mul=lambda p, q: p * q, floordiv=divide,
                 ceildiv=lambda p, q: -divide(-p, q), mod=lambda p, q: p - q * divide(p, q), least=least, most=most)

    def value(text): return eval("(lambda I: %s)" % re.sub(r"(?<!\w)(-?\d+)", r"I(\1)", text), names)(z3.IntVal)

    x, y = value(a), value(b)
    solver.add(*defined)
    claims = {"<": x < y, "<=": x <= y, "==": x == y, ">=": x >= y, ">": x > y}
    def holds(claim):
        solver.push()
        solver.add(z3.Not(claim))
        answer = solver.check()
        solver.pop()
        return None if answer == z3.unknown else answer == z3.unsat
    if sign == "?": return "undecided, and z3 decides" if any(holds(c) for c in (claims["<="], claims[">="])) else "undecided by both"
    answer = holds(claims[sign])
    return "z3 has no answer" if answer is None else "right" if answer else "WRONG"


counts = {}
for line in sys.stdin:
    if "\t" not in line: continue
    verdict = judge(line)
    counts[verdict] = counts.get(verdict, 0) + 1
    if verdict == "WRONG": print("WRONG:", line, end="")
for verdict in sorted(counts): print("%6d %s" % (counts[verdict], verdict))
if not counts.get("right"): sys.exit("nothing was judged")
sys.exit("WRONG" in counts)

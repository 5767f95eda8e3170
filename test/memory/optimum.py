"""Compares ladders of plans with the exact optimum.

    optimum.py [--seconds N] FILE.jsonl       lines of optimum.c, each with a "name"

For two budgets a step, a fifth and a half of the way from the ladder's least peak to the peak without recomputation, a mixed integer
program (Checkmate's, over the same units, for HiGHS) gives the least time that any plan needs; and another the least peak that any plan
reaches.  Fails where the ladder's plan costs more than 1.2 times the optimum, or 1.05 times on average, over budgets where the optimum
is above 1 % of the step; where no plan of the ladder fits; or where a program was not solved to the end."""
import argparse
import json
import math
import sys

import highspy

INFINITY = highspy.kHighsInf


class Linear:
    """A mixed integer program, built row by row; terms are (column, factor)."""

    def __init__(self):
        self.costs, self.low, self.high, self.whole, self.rows = [], [], [], [], []

    def column(self, cost=0.0, high=1.0, whole=True):
        self.costs.append(cost), self.low.append(0.0), self.high.append(high), self.whole.append(whole)
        return len(self.costs) - 1

    def at_most(self, bound, terms):
        merged = {}
        for column, factor in terms:
            merged[column] = merged.get(column, 0.0) + factor
        self.rows.append((bound, merged))

    def solve(self, seconds):
        solver, model = highspy.Highs(), highspy.HighsLp()
        for option, value in (("output_flag", False), ("time_limit", float(seconds)), ("threads", 1), ("mip_rel_gap", 1e-4)):
            solver.setOptionValue(option, value)
        starts, columns, factors = [0], [], []
        for _, terms in self.rows:
            columns += terms.keys()
            factors += terms.values()
            starts.append(len(columns))
        model.num_col_, model.num_row_ = len(self.costs), len(self.rows)
        model.col_cost_, model.col_lower_, model.col_upper_ = self.costs, self.low, self.high
        model.row_lower_, model.row_upper_ = [-INFINITY] * len(self.rows), [bound for bound, _ in self.rows]
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = starts, columns, factors
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger if w else kinds.kContinuous for w in self.whole]
        solver.passModel(model)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return math.inf, True
        return info.objective_function_value, status == highspy.HighsModelStatus.kOptimal


class Expression:
    """constant + terms; what is certain needs no column"""

    def __init__(self, constant=0.0, terms=()):
        self.constant, self.terms = constant, list(terms)

    def __add__(self, other):
        return Expression(self.constant + other.constant, self.terms + other.terms)

    def times(self, factor):
        return Expression(factor * self.constant, [(c, factor * f) for c, f in self.terms])


class Optimum:
    """In stage t, units may run again before unit t does: run[t, u].  keep[t, v]: version v stands in memory between stages t - 1 and t.
    A version that overwrites another takes no memory of its own where the other is not wanted any more."""

    def __init__(self, step, budget):
        self.runs, self.versions, self.n = step["runs"], step["versions"], step["units"]
        self.makers = [[u for u, r in enumerate(self.runs) if v in r["makes"]] for v in range(len(self.versions))]
        self.users = [[u for u, r in enumerate(self.runs) if v in r["reads"]] for v in range(len(self.versions))]
        self.lp = Linear()
        scale = 1.0 / max(v["bytes"] for v in self.versions)
        self.bytes = [v["bytes"] * scale for v in self.versions]
        self.scratch = [r["scratch"] * scale for r in self.runs]
        self.second = step["seconds"] or 1.0
        self.limit = Expression(budget * scale) if budget is not None else Expression(0.0, [(self.lp.column(1.0, INFINITY, False), 1.0)])
        self.scale, self.least_peak = scale, budget is None
        self.columns()
        for t in range(self.n):
            self.stage(t)

    def may_run(self, t, u):
        return u != t and self.runs[u]["again"] and self.runs[u]["order"] < self.runs[t]["order"] and self.runs[u]["until"] >= t

    def columns(self):
        self.run, self.keep = {}, {}
        for t in range(self.n):
            for u, r in enumerate(self.runs):
                if self.may_run(t, u):
                    self.run[t, u] = self.lp.column(0.0 if self.least_peak else r["seconds"] / self.second)
            for v in range(len(self.versions)):
                if self.first(v) < t and self.last(v) >= t:
                    self.keep[t, v] = self.lp.column()

    def first(self, v):
        return self.versions[v]["maker"]

    def last(self, v):
        """the last stage before which v can be of use: its own readers', or that of anything it may have to make again"""
        if self.versions[v].get("last") is None:
            again = [u for u in self.users[v] if self.runs[u]["again"]]
            stages = [u for u in self.users[v] if u < self.n]
            stages += [min(self.runs[u]["until"], self.n - 1) for u in again]
            self.versions[v]["last"] = max(stages, default=-1)
        return self.versions[v]["last"]

    def ran(self, t, u):
        return Expression(1.0) if u == t else Expression(0.0, [(self.run[t, u], 1.0)]) if (t, u) in self.run else Expression()

    def kept(self, t, v):
        if t < self.n and (t, v) in self.keep:
            return Expression(0.0, [(self.keep[t, v], 1.0)])
        return Expression(1.0 if self.first(v) < 0 and t == 0 else 0.0)

    def no_more(self, left, right):
        self.lp.at_most(right.constant - left.constant, left.terms + right.times(-1).terms)

    def stage(self, t):
        order = sorted([u for s, u in self.run if s == t] + [t], key=lambda u: self.runs[u]["order"])
        for v in range(len(self.versions)):
            if t > 0 and (t, v) in self.keep:
                there = self.kept(t - 1, v)
                for u in self.makers[v]:
                    there += self.ran(t - 1, u)
                self.no_more(self.kept(t, v), there)
        memory = Expression()
        for v in range(len(self.versions)):
            memory += self.kept(t, v).times(self.bytes[v])
        for i, u in enumerate(order):
            self.needs(t, u, order[:i])
            reads, makes = self.runs[u]["reads"], self.runs[u]["makes"]
            over = {self.versions[v]["over"] for v in makes}
            for v in over & set(reads):
                memory += self.freed(t, u, v, order[i + 1:]).times(-self.bytes[v])
            for v in makes:
                memory += self.ran(t, u).times(self.bytes[v])
            self.no_more(memory + self.ran(t, u).times(self.scratch[u]), self.limit)
            for v in set(reads + makes) - over:
                memory += self.freed(t, u, v, order[i + 1:]).times(-self.bytes[v])

    def needs(self, t, u, before):
        for v in self.runs[u]["reads"]:
            there = self.kept(t, v)
            for m in before:
                if m in self.makers[v]:
                    there += self.ran(t, m)
            self.no_more(self.ran(t, u), there)

    def freed(self, t, u, v, later):
        """whether v leaves memory right after u has run in stage t: nobody reads it later in the stage, nor is it kept"""
        if not self.bytes[v] or t in later and v in self.runs[t]["reads"]:
            return Expression()
        free = Expression(0.0, [(self.lp.column(whole=False), 1.0)])
        self.no_more(free, self.ran(t, u))
        self.no_more(free, Expression(1.0) + self.kept(t + 1, v).times(-1))
        for reader in later:
            if v in self.runs[reader]["reads"]:
                self.no_more(free, Expression(1.0) + self.ran(t, reader).times(-1))
        return free

    def solve(self, seconds):
        value, solved = self.lp.solve(seconds)
        return (value / self.scale if self.least_peak else value * self.second), solved


def plan_for(ladder, budget):
    fitting = [seconds for peak, seconds in ladder if peak <= budget]
    return min(fitting, default=math.inf)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--seconds", type=float, default=600, help="for each program of HiGHS")
    options = parser.parse_args()
    ratios, peaks, unsolved, missing = [], [], 0, 0
    print(f"{'step':24} {'units':>5} {'budget':>12} {'ours':>8} {'optimum':>8} {'ratio':>6}    of the step's time")
    for line in open(options.file):
        step = json.loads(line)
        ladder = step["ladder"]
        most, least = ladder[0][0], ladder[-1][0]
        for share in (0.2, 0.5):
            budget = math.floor(least + share * (most - least))
            ours = plan_for(ladder, budget) / step["seconds"]
            best, solved = Optimum(step, budget).solve(options.seconds)
            best /= step["seconds"]
            unsolved += not solved
            missing += ours == math.inf
            ratio = ours / best if best > 1e-9 else 1.0 if ours < 1e-9 else math.inf
            if best > 0.01:
                ratios.append(ratio)
            print(f"{step['name']:24} {step['units']:5} {budget:12} {ours:8.4f} {best:8.4f} {ratio:6.3f}{'' if solved else '    not solved'}", flush=True)
        peak, solved = Optimum(step, None).solve(options.seconds)
        unsolved += not solved
        peaks.append(least / peak)
        print(f"{step['name']:24} {step['units']:5} {'least peak':>12} {least:8} {peak:8.0f} {least / peak:6.3f}{'' if solved else '    not solved'}", flush=True)
    average = sum(ratios) / len(ratios) if ratios else math.inf
    print(f"time: {len(ratios)} budgets, average {average:.3f}, worst {max(ratios, default=math.inf):.3f}; "
          f"least peak: average {sum(peaks) / len(peaks):.3f}, worst {max(peaks):.3f}; {unsolved} not solved, {missing} without a plan")
    return 0 if average <= 1.05 and max(ratios) <= 1.2 and not unsolved and not missing else 1


if __name__ == "__main__":
    sys.exit(main())

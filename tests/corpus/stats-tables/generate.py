"""Writes tables.json: 500 random tables with the results of scipy and statsmodels.

    python -m venv venv && venv/bin/pip install scipy==1.17.1 statsmodels==0.15.0
    venv/bin/python generate.py > tables.json
"""

import json
import random

import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

PER_KIND = 100
draw = random.Random(20260301)


def number(value):
    return float(value)


def mcnemar_table():
    only_base, only_run = draw.randint(0, 40), draw.randint(0, 40)
    if only_base + only_run == 0:
        only_run = 1
    both, neither = draw.randint(0, 60), draw.randint(0, 60)
    table = [[both, only_base], [only_run, neither]]
    return {
        "table": table,
        "exact": number(mcnemar(table, exact=True).pvalue),
        "chi2": number(mcnemar(table, exact=False, correction=True).pvalue),
    }


def fisher_table():
    sizes = [draw.randint(1, 80), draw.randint(1, 80)]
    passed = [draw.randint(0, size) for size in sizes]
    table = [[k, n - k] for k, n in zip(passed, sizes)]
    return {"table": table, "p": number(stats.fisher_exact(table).pvalue)}


def pairs(span, size):
    """Integers; a narrow span makes ties."""
    base = [draw.randint(0, span) for _ in range(size)]
    shift = draw.randint(-span // 3, span // 3)
    run = [value + draw.randint(-span // 2, span // 2) + shift for value in base]
    return base, run


def wilcoxon_table():
    while True:
        base, run = pairs(draw.choice([6, 20, 100]), draw.randint(5, 40))
        differences = [after - before for before, after in zip(base, run)]
        if any(differences):
            break
    found = stats.wilcoxon(
        differences, zero_method="wilcox", correction=False, method="asymptotic"
    )
    return {"base": base, "run": run, "w": number(found.statistic), "p": number(found.pvalue)}


def t_table():
    while True:
        base, run = pairs(draw.choice([20, 100]), draw.randint(3, 40))
        differences = {after - before for before, after in zip(base, run)}
        if 1 < len(differences) and 1 < len(set(base)) and 1 < len(set(run)):
            break
    paired = stats.ttest_rel(run, base)
    ends = paired.confidence_interval(0.95)
    welch = stats.ttest_ind(run, base, equal_var=False)
    welch_ends = welch.confidence_interval(0.95)
    return {
        "base": base,
        "run": run,
        "t": number(paired.statistic),
        "p": number(paired.pvalue),
        "interval": [number(ends.low), number(ends.high)],
        "welch_t": number(welch.statistic),
        "welch_p": number(welch.pvalue),
        "welch_interval": [number(welch_ends.low), number(welch_ends.high)],
    }


def multiple_table():
    size = draw.randint(1, 20)
    p = [round(draw.random() ** draw.choice([1, 2, 4]), 6) for _ in range(size)]
    return {
        "p": p,
        "holm": [number(value) for value in multipletests(p, method="holm")[1]],
        "bh": [number(value) for value in multipletests(p, method="fdr_bh")[1]],
    }


KINDS = {
    "mcnemar": mcnemar_table,
    "fisher": fisher_table,
    "wilcoxon": wilcoxon_table,
    "t": t_table,
    "multiple": multiple_table,
}
versions = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__}
lines = [f'  "sources": {json.dumps(versions)}']
for kind, make in KINDS.items():
    tables = ",\n    ".join(json.dumps(make()) for _ in range(PER_KIND))
    lines.append(f'  "{kind}": [\n    {tables}\n  ]')
print("{\n" + ",\n".join(lines) + "\n}")

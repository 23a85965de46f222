#!/usr/bin/env python3
"""Makes `prices.tsv`, the price table shipped with the server, from two Python packages on PyPI.

    python3 runtime/domain/data/convert_prices.py          # fetches the packages with pip, writes prices.tsv
    python3 runtime/domain/data/convert_prices.py WHEELS   # uses the wheels in a directory instead

To refresh: raise the versions in LITELLM and GENAI_PRICES and the day in AS_OF, run it, read what it prints (where
the two packages disagree about a vendor's own price), settle that in `price_overrides.tsv`, and run the tests.

The newest litellm gives the prices. The older ones give the models that it no longer lists, with the last price
they had. genai-prices adds names of vendors' models that no litellm has, and is compared with the rest.
Nothing of a package is executed: its data file is read as JSON or as a syntax tree.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
LITELLM = ["1.109.1", "1.99.2", "1.76.3", "1.66.3", "1.53.8"]
GENAI_PRICES = "0.2.3"
# The day of the refresh, raised with the versions: prices of genai-prices that begin later are left out silently.
AS_OF = "2026-11-22"

MODES = {"chat", "completion", "responses", "embedding", "realtime"}
# Prices without a name, in this order; others are written `bucket=price`.
COLUMNS = ["input", "output", "input_cached_tokens", "input_cache_creation", "input_cache_creation_1h"]
BUCKETS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "input_cached_tokens",
    "cache_creation_input_token_cost": "input_cache_creation",
    "cache_creation_input_token_cost_above_1hr": "input_cache_creation_1h",
    "input_cost_per_audio_token": "input_audio_tokens",
    "output_cost_per_audio_token": "output_audio_tokens",
    "input_cost_per_image_token": "input_image_tokens",
    "output_cost_per_reasoning_token": "output_reasoning_tokens",
}
GENAI_BUCKETS = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "input_cached_tokens",
    "cache_write_mtok": "input_cache_creation",
    "cache_write_1h_mtok": "input_cache_creation_1h",
    "input_audio_mtok": "input_audio_tokens",
    "output_audio_mtok": "output_audio_tokens",
    "input_image_mtok": "input_image_tokens",
    "output_reasoning_mtok": "output_reasoning_tokens",
}
SERVICES = {"flex": "flex", "priority": "priority", "batches": "batch"}
FIELD = re.compile(
    r"^(?P<base>.+?)(?:_above_(?P<kilo>\d+)k_tokens)?(?:_(?P<service>flex|priority|batches))?$"
)

# Sellers that litellm knows under several names.
SELLERS = {
    "text-completion-openai": "openai",
    "gemini": "google",
    "codestral": "mistral",
    "text-completion-codestral": "mistral",
    "cohere_chat": "cohere",
    "bedrock_converse": "bedrock",
    "bedrock_mantle": "bedrock",
    "amazon_nova": "amazon",
    "azure_ai": "azure",
    "azure_text": "azure",
    "dashscope": "alibaba",
    "meta_llama": "meta",
    "fireworks_ai-embedding-models": "fireworks_ai",
    "text-completion-inception": "inception",
}
MISTRALS = r"(labs-|open-)?(mistral|mixtral|ministral|codestral|magistral|devstral|pixtral|voxtral|leanstral)"
GOOGLES = (
    r"(gemini|learnlm|medlm|deep-research|lyria|(text|chat|code|codechat)-(bison|gecko|unicorn)"
    r"|text-embedding-|text-multilingual-|textembedding-gecko|multimodalembedding)"
)
# Who sells models of its own making, and which of those it sells are. Where a vendor sells through two shops, the
# first is the one whose price holds for a name without a seller.
VENDORS = [
    # It gives the weights of gpt-oss away and leaves the selling to others.
    ("openai", r"(?!gpt-oss)"),
    ("anthropic", ""),
    ("google", GOOGLES),
    ("vertex_ai", GOOGLES),
    ("mistral", MISTRALS),
    ("xai", ""),
    ("deepseek", ""),
    ("cohere", ""),
    ("bedrock", r"amazon\."),
    ("amazon", ""),
    ("alibaba", r"(qwen|qwq|qvq|text-embedding-v)"),
    ("meta", r"muse"),
    ("ai21", ""),
    ("voyage", ""),
    ("moonshot", r"(kimi|moonshot)"),
    ("zai", "glm"),
    ("minimax", ""),
    ("perplexity", r"(sonar|pplx)"),
]
OWN = {seller: re.compile(pattern, re.IGNORECASE) for seller, pattern in VENDORS}
# Sellers whose retired models are kept: the vendors, and where most of their models are resold.
KEPT = {seller for seller, _ in VENDORS} | {"azure", "groq"}
# Whose models run on the user's own machine, where tokens cost nothing.
LOCAL = {"lemonade", "ollama"}
# What is given away says so in its name.
FREE = re.compile(r"[-:]free$")
# The vendors of genai-prices under our names.
GENAI_SELLERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "google",
    "mistral": "mistral",
    "x-ai": "xai",
    "deepseek": "deepseek",
    "meta": "meta",
    "cohere": "cohere",
    "aws": "bedrock",
    "moonshotai": "moonshot",
    "groq": "groq",
    "openrouter": "openrouter",
}
# Those of them that resell, and write `:free` and the like behind a name.
RESELLERS = {"groq", "openrouter"}


def plain(amount):
    text = format(Decimal(amount).normalize(), "f")
    return "0" if text in ("-0", "") else text


def per_million(value):
    return plain(Decimal(repr(value)) * 1_000_000)


def prices_by_tier(fields):
    tiers = {}
    for field, value in fields.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            continue
        match = FIELD.match(field)
        bucket = BUCKETS.get(match["base"])
        if bucket is None:
            continue
        kilo = int(match["kilo"]) if match["kilo"] else 0
        tiers.setdefault((match["service"] or "", kilo * 1000), {})[bucket] = per_million(value)
    # Prices by ranges of the input: the first is the default, and each further one holds above its start.
    for part in fields.get("tiered_pricing") or []:
        found = {BUCKETS[key]: per_million(value) for key, value in part.items() if key in BUCKETS}
        start = int(part.get("range", [0])[0])
        if found and ("", start) not in tiers:
            tiers[("", start)] = found
    return tiers


def written(prices, default=None):
    """Prices as text; those of a tier without what is as in the default."""
    prices = {key: value for key, value in prices.items() if (default or {}).get(key) != value}
    texts = [prices.get(column, "") for column in COLUMNS]
    while texts and not texts[-1]:
        texts.pop()
    texts += [f"{key}={value}" for key, value in sorted(prices.items()) if key not in COLUMNS]
    return ",".join(texts)


def tiers_written(tiers, default):
    # Most conditions first, then the longest context: the first tier that matches is taken.
    order = sorted(tiers, key=lambda key: (-bool(key[0]) - bool(key[1]), -key[1], key[0]))
    texts = []
    for service, above in order:
        # A combined tier starts from the longer context, then the service, then what names both.
        prices = {}
        for part in (("", above), (service, 0), (service, above)):
            prices.update(tiers.get(part, {}))
        text = written(prices, default)
        if text:
            name = SERVICES.get(service, "") + (f">{above}" if above else "")
            texts.append(f"{name}:{text}")
    return texts


def behind_seller(name):
    """The model's name as the seller spells it, without the first word of its path."""
    return name.split("/", 1)[-1]


def is_own(name, seller):
    return seller in OWN and OWN[seller].match(behind_seller(name)) is not None


def is_free(name, seller):
    # Ollama's `-cloud` models run at Ollama, for a subscription.
    return FREE.search(name) is not None or (seller in LOCAL and not name.endswith("-cloud"))


def row(name, seller, source, tiers):
    tiers = dict(tiers)
    default = tiers.pop(("", 0), {})
    if "input" not in default and "output" not in default:
        return None
    if not any(Decimal(price) for price in default.values()) and not is_free(name, seller):
        # Not known, free for a while, or not sold by tokens (SageMaker bills the hour): that is no price.
        return None
    return {
        "model": name,
        "seller": seller,
        "own": is_own(name, seller),
        "source": source,
        "default": default,
        "prices": written(default),
        "tiers": tiers_written(tiers, default),
    }


def of_litellm(wheels):
    rows, known = {}, set()
    for version in LITELLM:
        found, seen = {}, set()
        text = member(wheels, "litellm", version, "litellm/model_prices_and_context_window_backup.json")
        for name, fields in json.loads(text).items():
            if name == "sample_spec" or fields.get("mode") not in MODES or name in rows:
                continue
            seller = fields["litellm_provider"]
            seller = "vertex_ai" if seller.startswith("vertex_ai") else SELLERS.get(seller, seller)
            # An older list counts only for what no newer one has, under whichever spelling.
            if version != LITELLM[0] and (seller not in KEPT or (seller, behind_seller(name).lower()) in known):
                continue
            made = row(name, seller, f"litellm {version}", prices_by_tier(fields))
            if made:
                found[name] = made
            # Where the newest list has no price, a vendor's last one counts, and a reseller's is withdrawn.
            if made or not is_own(name, seller):
                seen.add((seller, behind_seller(name).lower()))
        rows.update(found)
        known |= seen
    return rows


def tree_value(node):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        return [tree_value(item) for item in node.elts]
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).rsplit(".", 1)[-1]
        if called == "Decimal":
            return node.args[0].value
        if called == "date":
            return "-".join(f"{part.value:02}" for part in node.args)
        members = {word.arg: tree_value(word.value) for word in node.keywords}
        return {"kind": ast.unparse(node.func), **members}
    return ast.unparse(node)


def of_genai_prices(wheels):
    """(seller, match clause, prices, exact names) of the vendors' models."""
    text = member(wheels, "genai_prices", GENAI_PRICES, "genai_prices/data.py")
    assigned = [node for node in ast.parse(text).body if isinstance(node, ast.AnnAssign)]
    providers = next(tree_value(node.value) for node in assigned if node.target.id == "providers")
    for provider in providers:
        seller = GENAI_SELLERS.get(provider["id"])
        for model in provider["models"] if seller else []:
            prices = model["prices"]
            if isinstance(prices, list):
                prices = [one for one in prices if holds_today(one.get("constraint"))][-1]["prices"]
            tiers = {}
            for field, bucket in GENAI_BUCKETS.items():
                value = prices.get(field)
                if isinstance(value, dict):
                    tiers.setdefault(("", 0), {})[bucket] = plain(value["base"])
                    for step in value.get("tiers", []):
                        tiers.setdefault(("", int(step["start"])), {})[bucket] = plain(step["price"])
                elif value is not None:
                    tiers.setdefault(("", 0), {})[bucket] = plain(value)
            yield seller, model["match"], tiers, {model["id"], *exact_names(model["match"])}


def holds_today(constraint):
    """Of prices by date or by hour, those without an hour that have started; the last one counts."""
    if constraint is None:
        return True
    return constraint["kind"] == "StartDateConstraint" and constraint["start_date"] <= AS_OF


def exact_names(clause):
    if clause["kind"] == "ClauseEquals":
        return [clause["equals"]]
    if clause["kind"] == "ClauseOr":
        return [name for part in clause["or_"] for name in exact_names(part)]
    return []


def matches(clause, name):
    kind = clause["kind"]
    if kind == "ClauseOr":
        return any(matches(part, name) for part in clause["or_"])
    if kind == "ClauseAnd":
        return all(matches(part, name) for part in clause["and_"])
    if kind == "ClauseRegex":
        return re.search(clause["regex"], name) is not None
    value = next(value for key, value in clause.items() if key != "kind")
    return {
        "ClauseEquals": name == value,
        "ClauseStartsWith": name.startswith(value),
        "ClauseEndsWith": name.endswith(value),
        "ClauseContains": value in name,
    }[kind]


def add_genai_prices(rows, wheels):
    """Adds the names that are missing; returns where the two disagree about a vendor's own model."""
    known = {(made["seller"], behind_seller(name).lower()) for name, made in rows.items()}
    known |= {("google", name) for seller, name in known if seller == "vertex_ai"}
    disagreements = []
    clauses = list(of_genai_prices(wheels))
    for seller, clause, tiers, names in clauses:
        default = tiers.get(("", 0), {})
        for name in sorted(names):
            # Spellings of resellers and of other tools.
            if re.search(r"[ ,]|-$" if seller in RESELLERS | {"bedrock"} else r"[ ,:]|-$", name):
                continue
            if (seller, behind_seller(name).lower()) in known:
                continue
            resold = seller in RESELLERS
            made = row(f"{seller}/{name}" if resold else name, seller, f"genai-prices {GENAI_PRICES}", tiers)
            if made and (resold or made["own"]):
                rows.setdefault(made["model"], made)
    for name, made in rows.items():
        if not made["own"] or made["source"].startswith("genai"):
            continue
        seller = {"vertex_ai": "google"}.get(made["seller"], made["seller"])
        spelled = behind_seller(name).lower()
        for other, clause, tiers, _ in clauses:
            if other == seller and matches(clause, spelled):
                default = tiers.get(("", 0), {})
                pairs = [(made["default"].get(key), default.get(key)) for key in ("input", "output")]
                if any(None not in pair and pair[0] != pair[1] for pair in pairs):
                    disagreements.append((made["source"], name, pairs))
                break
    return disagreements


def add_overrides(rows):
    """Applies what was settled by hand; the head of the file says how it is written."""
    settled, same = set(), []
    for line in (HERE / "price_overrides.tsv").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, seller, prices, _reason = line.split("\t")
        settled.add(name)
        if prices == "-":
            rows.pop(name, None)
        elif prices.startswith("="):
            same.append((name, seller, prices[1:]))
        else:
            columns = prices.split(" ")
            rows[name] = {
                "model": name,
                "seller": seller,
                "own": is_own(name, seller),
                "source": "price_overrides.tsv",
                "prices": columns[0],
                "tiers": columns[1:],
            }
    for name, seller, other in same:
        rows[name] = {**rows[other], "model": name, "seller": seller, "own": is_own(name, seller)}
    return settled


def without_second_shops(rows):
    """A vendor's second shop is its own price only for what the first does not sell."""
    for first, second in (("google", "vertex_ai"), ("bedrock", "amazon")):
        have = {behind_seller(name).lower() for name, made in rows.items() if made["seller"] == first and made["own"]}
        for name, made in rows.items():
            if made["seller"] == second and behind_seller(name).lower() in have:
                made["own"] = False


def member(wheels, package, version, path):
    wheel = next(Path(wheels).glob(f"{package}-{version}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(path).decode("utf-8")


def fetch(into):
    wanted = [f"litellm=={version}" for version in LITELLM] + [f"genai-prices=={GENAI_PRICES}"]
    for package in wanted:
        # One at a time: pip refuses two versions of a package in one call.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", into, package]
        subprocess.run(command, check=True)


def make(wheels):
    rows = of_litellm(wheels)
    without_second_shops(rows)
    disagreements = add_genai_prices(rows, wheels)
    settled = add_overrides(rows)
    without_second_shops(rows)
    for source, name, pairs in disagreements:
        shown = ", ".join(f"{ours} against {theirs}" for ours, theirs in pairs)
        print(f"{'settled' if name in settled else 'open'}: {name} ({source}): {shown}", file=sys.stderr)
    sources = sorted({made["source"] for made in rows.values()})
    lines = [
        "# Prices in US dollars per million tokens. Made by convert_prices.py; do not edit by hand.",
        "# Sources: PyPI packages litellm (MIT, Copyright (c) 2023 Berri AI; model_prices_and_context_window_backup.json)",
        "# and genai-prices (MIT, Copyright (c) Pydantic Services Inc. 2025 to present); overrides: price_overrides.tsv.",
        *(f"# source {at}: {source}" for at, source in enumerate(sources)),
        "# model, seller, own (the vendor's own entry) or -, source, input,output,cached,cache write,1 h write,others; tiers",
    ]
    for name in sorted(rows):
        made = rows[name]
        own = "own" if made["own"] else "-"
        source = str(sources.index(made["source"]))
        lines.append("\t".join([name, made["seller"], own, source, made["prices"], *made["tiers"]]))
    (HERE / "prices.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows)} entries", file=sys.stderr)


def main():
    if len(sys.argv) > 1:
        make(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as directory:
        fetch(directory)
        make(directory)


if __name__ == "__main__":
    main()

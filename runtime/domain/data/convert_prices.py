#!/usr/bin/env python3
"""Converts litellm's price map into `prices.json`, the table shipped with the server.

    pip download --no-deps litellm -d /tmp/litellm && unzip -d /tmp/litellm /tmp/litellm/*.whl
    ./convert_prices.py VERSION /tmp/litellm/litellm/model_prices_and_context_window_backup.json > prices.json

Prices become dollars per million tokens, as decimal text so that no binary fraction gets in between.
"""

import json
import re
import sys
from decimal import Decimal

MODES = {"chat", "completion", "responses", "embedding", "realtime"}
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
SERVICES = {"flex": ["flex"], "priority": ["priority"], "batches": ["batch", "batches"]}
FIELD = re.compile(
    r"^(?P<base>.+?)(?:_above_(?P<kilo>\d+)k_tokens)?(?:_(?P<service>flex|priority|batches))?$"
)


def per_million(value):
    amount = (Decimal(repr(value)) * 1_000_000).normalize()
    return format(amount, "f")


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
        tiers.setdefault((match["service"] or "", kilo), {})[bucket] = per_million(value)
    return tiers


def tier(service, kilo, tiers):
    """A combined tier starts from the dearer context, then the service, then what names both."""
    prices = {}
    for part in ((("", kilo)), ((service, 0)), ((service, kilo))):
        prices.update(tiers.get(part, {}))
    when = []
    if service:
        when.append({"key": "service_tier", "in": SERVICES[service]})
    if kilo:
        when.append({"buckets": "^(input|cache_)", "above": kilo * 1000})
    return {"when": when, "prices": prices}


def entry(name, fields):
    tiers = prices_by_tier(fields)
    default = tiers.pop(("", 0), {})
    if "input" not in default and "output" not in default:
        return None
    # Most conditions first, then the longest context: the first tier that matches is taken.
    order = sorted(tiers, key=lambda key: (-bool(key[0]) - bool(key[1]), -key[1], key[0]))
    tiers[("", 0)] = default
    result = {"model": name, "prices": default}
    conditional = []
    for service, kilo in order:
        made = tier(service, kilo, {key: value for key, value in tiers.items() if key != ("", 0)})
        conditional.append(made)
    if conditional:
        result["tiers"] = conditional
    return result


def main():
    version, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        models = json.load(file)
    entries = []
    for name, fields in sorted(models.items()):
        if name != "sample_spec" and fields.get("mode") in MODES:
            made = entry(name, fields)
            if made:
                entries.append(made)
    print("{")
    print(' "origin": "PyPI package litellm, litellm/model_prices_and_context_window_backup.json",')
    print(' "license": "MIT, Copyright (c) 2023 Berri AI",')
    print(f' "version": {json.dumps(version)},')
    print(' "entries": [')
    print(",\n".join(json.dumps(made, separators=(",", ":")) for made in entries))
    print(" ]\n}")


if __name__ == "__main__":
    main()

#!/bin/sh
# Prints the addresses of this machine's GPUs as Spark wants them: {"name": "gpu", "addresses": ["0", "1"]}
addresses=$(nvidia-smi --query-gpu=index --format=csv,noheader) || exit 1
printf '{"name": "gpu", "addresses": ["%s"]}\n' "$(printf '%s' "$addresses" | tr -d ' ' | tr '\n' ',' | sed 's/,/", "/g')"

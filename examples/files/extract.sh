#!/bin/sh
# Three orders of a day, one per line.
for number in 1 2 3; do
    printf '{"order": %s, "day": "%s"}\n' "$number" "$1"
done

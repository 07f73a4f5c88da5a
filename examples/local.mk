# The example data, installed so that the README's commands work after `make install` too.
householddir = $(pkgdatadir)/examples/household
dist_household_DATA = examples/household/train.jsonl examples/household/held-out.jsonl
EXTRA_DIST += examples/README.md quickstart .ci/run

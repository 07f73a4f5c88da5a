#!/usr/bin/env bash
# Each command has a page, each page has exactly the command's options, with the right letters, choices and defaults.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"

# "name letter", sorted, from the `.It Fl` lines of a page
page_options() {
    awk '/^\.It Fl / {
        name = ""; letter = "-"
        for (i = 3; i <= NF; i++) {
            if ($i ~ /^(Ar|Cm)$/) break
            if ($i ~ /^-/) name = substr($i, 2)
            else if (length($i) == 1 && $i != ",") letter = $i
        }
        print name, letter
    }' "$1" | sort
}

# the lines of a page that describe one option
page_text() { awk -v name="-$2" '/^\.(It|El)/ { on = 0; for (i = 1; i <= NF; i++) if ($i == name) on = 1 } on' "$1"; }

commands=$("$zerolock" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
[ "$(echo "$commands" | wc -w)" -ge 4 ] || fail "only these commands: $commands"
for command in $commands; do
    page=$ZL_SRCDIR/man/zerolock-$command.1
    [ -r "$page" ] || {
        fail "no page for $command"
        continue
    }
    "$zerolock" "$command" --help-options >table || fail "no table for $command"
    if grep -q '^takes every option of$' "$page"; then
        "$zerolock" train --help-options | diff - table >difference || fail "$command: its options are not those of train"
        continue
    fi
    if grep -q '^takes all other options of$' "$page"; then
        "$zerolock" train --help-options >of-train
        cut -f 1 table | sort >all
        sed -i '/^help\t/q' table # its own come first, up to those that every command has
        cut -f 1 of-train | sort | comm -23 - all >missing
        [ ! -s missing ] || fail "$command does not take: $(tr '\n' ' ' <missing)"
    fi
    awk -F '\t' '{ print $1, $2 }' table | sort >in-table
    page_options "$page" >in-page
    diff in-table in-page >difference || fail "$command: options differ from the page's: $(grep '^[<>]' difference | tr '\n' ';')"
    while IFS=$'\t' read -r name _ value kind default; do
        page_text "$page" "$name" >text
        if [ "$kind" = choice ]; then
            for choice in ${value//|/ }; do
                head -n 1 text | grep -qw -- "$choice" || fail "$command --$name: the page lacks the choice $choice"
            done
        fi
        [ "$default" = - ] || grep -qF -- "$default" text || fail "$command --$name: the page lacks the default $default"
    done <table
    grep -q "Xr zerolock-$command 1" "$ZL_SRCDIR/man/zerolock.1" || fail "zerolock(1) does not name zerolock-$command(1)"
done

for page in "$ZL_SRCDIR"/man/*.1; do
    for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
        grep -q "^\.Sh $section" "$page" || fail "$page has no section $section"
    done
    if command -v mandoc >/dev/null; then
        mandoc -Tlint -W warning "$page" >lint || fail "$(cat lint)"
    fi
done
# the pictures of zerolock(7) are what the command above each prints
page=$ZL_SRCDIR/man/zerolock.7
pictures=0
while IFS= read -r line; do
    case $line in
    '$ zerolock '*)
        # shellcheck disable=SC2086
        "$zerolock" ${line#'$ zerolock '} | grep '^stage [0-9]' >printed || fail "zerolock(7): '$line' prints no picture"
        : >shown
        ;;
    'stage '[0-9]*) printf '%s\n' "$line" >>shown ;;
    .Ed)
        [ -e shown ] || continue
        pictures=$((pictures + 1))
        grep -v '^ ' printed | diff - shown >difference || fail "zerolock(7): another picture: $(cat difference)"
        rm -f shown
        ;;
    esac
done <"$page"
[ "$pictures" -ge 8 ] || fail "zerolock(7) has only $pictures pictures"
if command -v mandoc >/dev/null; then
    mandoc -Tlint -W warning "$page" >lint || fail "$(cat lint)"
fi
command -v mandoc >/dev/null || echo 'mandoc is not here: the pages were not linted'
finish

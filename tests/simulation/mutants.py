#!/usr/bin/python3
"""Proves that the simulation can fail: breaks each rule once, and names the check that notices.

A mutant is the relay with one piece of its source replaced; a break is one rule of the fake database or the fake Kafka left
out (simulation --break). Each must fail, by one of the checks that are named here for it. `make mutants` runs it; names as
arguments: only those.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

SEEDS = 20_000  # at most; each run stops at the first that fails

# name: (the checks one of which must notice, (file, what stands there, what stands there instead), ...)
MUTANTS = {
    # invariants of src/relay/private.h
    "unknown-is-sent": ("sent-unproven overtakes",
        ("answer.c",
            "\t\tif (row->answer.verdict == VERDICT_OK)\n",
            "\t\tif (row->answer.verdict == VERDICT_OK || row->answer.verdict == VERDICT_UNKNOWN)\n")),
    "outcome-forgotten": ("claim-before-settle lease-ran-out overtakes published-again",
        ("outcome.c",
            "\t\tsettle_again(source, job->verdict == VERDICT_UNKNOWN);\n",
            "\t\tstruct row *row;\n\n\t\twhile ((row = STAGE_FIRST(source, STAGE_SETTLING)) != NULL)\n\t\t\tremove_row(row);\n")),
    # on_delivered: await
    "asked-ignored": ("miscounted unsent-again",
        ("claim.c",
            "\treturn row->batch->source->config->on_delivered == ON_DELIVERED_AWAIT &&\n",
            "\treturn row->batch->source->config->on_delivered == ON_DELIVERED_DELETE &&\n")),
    "asked-resolved": ("unsent-again published-after-outcome crashed",
        ("outcome.c",
            "outcome == OUTCOME_SENT && !younger->asked_for;",
            "outcome == OUTCOME_SENT;")),
    "superseded-counted": ("miscounted",
        ("outcome.c",
            "if (row->resent || row->superseded)",
            "if (row->resent)")),
    "late-uncounted": ("miscounted",
        ("claim.c",
            "\tsource->stats.result_timeouts->value++;\n",
            "")),
    "expired-late": ("miscounted",
        ("jobs.c",
            "(late ? source->stats.result_timeouts : source->stats.lease_expired)->value++;",
            "source->stats.lease_expired->value++;")),
    "outcomes-mixed": ("sent-unproven",
        ("outcome.c",
            "if ((STAGE_ROW(node)->outcome == OUTCOME_SENT) == sent)",
            "if (sent || STAGE_ROW(node)->outcome != OUTCOME_SENT)")),
    "fenced-uncounted": ("miscounted",
        ("outcome.c",
            "source->stats.fenced->value++;",
            "")),
    "row-uncounted": ("crashed room",
        ("outcome.c",
            "\tsource->rows--;\n",
            "")),
    "owner-of-now": ("drain lease-ran-out miscounted overtakes unexplained-duplicate",
        ("outcome.c",
            ".owner = rows[i]->batch->owner,",
            ".owner = source->owner,")),
    "owner-of-now-sent": ("lease-ran-out miscounted overtakes unexplained-duplicate",
        ("outcome.c",
            "rows[i]->batch->owner);",
            "source->owner);")),
    "claims-lumped": ("unclaimed",
        ("outcome.c",
            "if (i == 0 || rows[i]->batch != rows[i - 1]->batch)",
            "if (i == 0)")),
    "window-of-two": ("key-window",
        ("publish.c",
            ".window = source->window};",
            ".window = source->window + 1};")),
    # keys.h: many rows of a key with Kafka at once
    "window-beyond": ("key-window",
        ("keys.c",
            "key->with_kafka < (key->proven ? key->lane.window : 1);",
            "key->with_kafka < (key->proven ? key->lane.window + 1 : 1);")),
    "careful-window": ("key-window",
        ("publish.c",
            "\tif (lane.kafka != source->env.kafka || message->key.len == 0)\n",
            "\tif (message->key.len == 0)\n")),
    "unproven": ("unproven order",
        ("keys.c",
            "key->with_kafka < (key->proven ? key->lane.window : 1);",
            "key->with_kafka < key->lane.window;")),
    "proof-of-another": ("unproven order",
        ("keys.c",
            "a->generation == b->generation && ",
            "")),
    "topics-mixed": ("key-window unproven",
        ("keys.c",
            "a->topic == b->topic &&",
            "true &&")),
    "producers-mixed": ("key-window",
        ("keys.c",
            "return a->kafka == b->kafka && a->generation == b->generation && a->topic == b->topic &&\n\t       a->partition == b->partition && a->window == b->window;",
            "return a->topic == b->topic && a->partition == b->partition;")),
    "concluded-early": ("concluded-early overtakes crashed order",
        ("keys.c",
            "return key->refused > 0 && key->refused == key->with_kafka;",
            "return key->refused > 0;"),
        ("outcome.c",
            "while ((behind = keys_behind(row)) != NULL) {",
            "while ((behind = keys_behind(row)) != NULL && behind->stage != STAGE_IN_FLIGHT && behind->stage != STAGE_ANSWERED) {")),
    "refused-stays": ("starved drain crashed lease-ran-out",
        ("answer.c",
            "\t\tif (key != NULL && keys_refused(key))\n\t\t\tconclude_key(key);\n",
            "")),
    "lease-ignored": ("short-lease",
        ("publish.c",
            "\treturn source->now_us + source->config->kafka.message_timeout_us + SETTLE_MARGIN_US <=",
            "\treturn source->now_us <=")),
    # rules of design.md, section 4
    "order-of-arrival": ("fifo",
        ("keys.c",
            "\twhile (place != NULL && movable(",
            "\twhile (place != NULL && place == NULL && movable(")),
    "behind-kept": ("overtakes",
        ("outcome.c",
            "while ((behind = keys_behind(row)) != NULL) {",
            "while ((behind = keys_behind(row)) != NULL && behind == NULL) {")),
    "never-broken": ("overtakes fifo",
        ("keys.c",
            "\tkey->broken = true;\n",
            "")),
    "claims-forgotten": ("overtakes",
        ("keys.c",
            "\tif (!key->broken || claim == 0) {",
            "\tif (!key->broken || claim != UINT64_MAX) {")),
    "owner-kept": ("owner-kept",
        ("claim.c",
            "\t\tclaim_name_owner(source);\n\t\tCRASH_POINT(CLAIM_LOST);\n",
            "")),
    "owner-kept-forgotten": ("overtakes share",
        ("outcome.c",
            "source->claim.rename = true;",
            "")),
    "lease-from-answer": ("short-lease",
        ("claim.c",
            "batch_new(source, result, n, job->sent_us,",
            "batch_new(source, result, n, source->now_us,")),
    "leases-eaten": ("lease-ran-out innocent-exhausted",
        ("source.c",
            "\tpublish_release_short(source);\n",
            "")),
    "claims-first": ("claim-before-settle",
        ("jobs.c",
            "breaker_would_pass(&source->cluster, source->now_us) && !source->settle_first &&",
            "breaker_would_pass(&source->cluster, source->now_us) &&")),
    "younger-sent": ("published-twice published-again",
        ("claim.c",
            "row->awaits_elder = elder->stage < STAGE_UNSETTLED;",
            "row->awaits_elder = false;")),
    "younger-sent-again": ("published-again delivered-released unexplained-duplicate",
        ("claim.c",
            "\tif (delivered_before(row))",
            "\tif (delivered_before(row) && row->elder == NULL)")),
    # what else is promised
    "suspect-with-others": ("claim-beside-suspect",
        ("jobs.c",
            "\t       !source->suspect_held &&",
            "\t      "),
        ("../core/sched.c",
            "return facts->due_us[SCHED_SUSPECT] > later(due, facts->now_us) ? due : SCHED_NEVER;",
            "return later(due, facts->now_us) == due ? due : facts->now_us;")),
    "suspect-in-company": ("suspect-in-company",
        ("../core/sched.c",
            "any_claim_running(facts) || facts->held > 0)",
            "any_claim_running(facts))")),
    "two-claims": ("two-claims crashed",
        ("../core/sched.c",
            "return facts->running[SCHED_CLAIM] || facts->running[SCHED_SUSPECT];",
            "return facts->running[SCHED_CLAIM] && facts->running[SCHED_SUSPECT];")),
    "share-untold": ("share",
        ("keys.c",
            "key->broken || key->rows >= (keys->share + 1) / 2;",
            "key->broken;")),
    "room-ignored": ("room",
        ("jobs.c",
            ".room = source->rows < max ? max - source->rows : 0,",
            ".room = max,")),
    "batch-condemned": ("condemned-with-batch",
        ("answer.c",
            "\tif (refused || row->trial)\n",
            "\tif (refused || row->trial || row->key != NULL)\n")),
    "trial-in-company": ("condemned-with-batch",
        ("publish.c",
            "\tif (row->trial)\n\t\treturn env->single;\n",
            "")),
    "elder-sent-younger-released": ("no-verdict delivered-released",
        ("outcome.c",
            "\twhile (node != NULL && STAGE_ROW(node)->awaits_elder)\n",
            "\twhile (node != NULL && node == NULL)\n"),
        ("publish.c",
            " && !STAGE_ROW(node)->awaits_elder)",
            ")")),
    "outage-charged": ("attempt-charged failed-unexplained",
        ("answer.c",
            "\t\tcluster_fault(row);",
            "\t\tpassing_fault(row);")),
    "topic-charged": ("attempt-charged failed-unexplained",
        ("answer.c",
            "\t\ttopic_fault(row);",
            "\t\tpassing_fault(row);")),
    "fault-free": ("attempt-free",
        ("answer.c",
            "\t\tpassing_fault(row);\n\t\tbreak;\n\t}\n}",
            "\t\tcluster_fault(row);\n\t\tbreak;\n\t}\n}")),
    "retried-at-once": ("backoff",
        ("answer.c",
            "outcome_set(row, OUTCOME_RETRY, delay,",
            "outcome_set(row, OUTCOME_RETRY, 0,")),
    "attempts-unlimited": ("attempts",
        ("answer.c",
            " || next == ROW_FAILED;",
            " || next == ROW_SENT;")),
    "attempt-kept": ("attempt-charged",
        ("outcome.c",
            "row->back = outcome == OUTCOME_RELEASED;",
            "row->back = 0;")),
    "failed-before-its-letter": ("failed-silently",
        ("answer.c",
            "if (row->batch->source->config->dead_letter_topic != NULL) {",
            "if (false) {")),
    "used-up-sent-again": ("sent-beyond-attempts",
        ("publish.c",
            "if (deadletter_is_due(row)) {",
            "if (false) {")),
    "buried-alive": ("buried-alive",
        ("deadletter.c",
            "return row->attempts > row->max_attempts && row->batch",
            "return row->attempts >= row->max_attempts && row->batch")),
    "attempts-left-for-letters": ("attempts-left",
        ("outcome.c",
            "row->back = row->attempts - row->max_attempts;",
            "row->back = 1;")),
    "letter-beside-the-order": ("overtakes order fifo",
        ("outcome.c",
            "\tif (outcome_keeps_order(row) && row->stage < STAGE_UNSETTLED) {\n\t\toutcome_release_behind(row);\n",
            "\tif (outcome_keeps_order(row) && row->stage < STAGE_UNSETTLED) {\n")),
    "delivered-released": ("delivered-released",
        ("answer.c",
            "\toutcome_set(row, OUTCOME_SENT, 0, NULL);\n}",
            "\toutcome_set(row, OUTCOME_RELEASED, 0, NULL);\n}")),
    "duplicate-uncounted": ("miscounted uncounted-duplicate",
        ("answer.c",
            "\tcount_possible_duplicate(row);\n",
            "")),
    "takeover-uncounted": ("miscounted uncounted-duplicate",
        ("claim.c",
            "\tcount_taken(row);\n",
            "")),
    "results-leak": ("leak",
        ("jobs.c",
            "\t\tdb_result_free(job->result);\n\t\tjob->result = NULL;\n",
            "\t\tjob->result = NULL;\n")),
    "drain-keeps": ("drain crashed",
        ("source.c",
            "\tif (source->rows == 0)\n\t\tsource_change_state(source, SOURCE_STOPPED",
            "\tif (true)\n\t\tsource_change_state(source, SOURCE_STOPPED")),
    "pass-spins": ("spins",
        ("source.c",
            "source->cluster.state == BREAKER_OPEN && source->cluster.until_us > source->now_us &&",
            "source->cluster.state == BREAKER_OPEN &&")),
}
# break: the checks one of which must notice
BREAKS = {
    "ctid": "overtakes", "recheck": "lease-stolen crashed", "key-order": "overtakes share", "lease-time": "lease-stolen", "fence-lease": "fence",
    "fence-owner": "fence", "fence-delete": "fence", "share": "share", "pull": "starved hammers", "park-state": "parked-in-flight", "sweep": "starved",
    "attempts": "attempt-uncounted", "suspects": "suspect-in-batch", "expire": "starved", "give-back": "attempt-kept",
    "early-answer": "unclaimed published-after-outcome", "ack": "lost order", "silence": "drain lease-ran-out starved",
    "reentry": "in-flight crashed", "gaps": "order", "deadline": "order",
    "turn": "dispatch-unbounded", "fence-result": "finished-changed",
}

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / os.environ["MUTANT_BUILD"] / "mutants"


def compiled(folder, name, file, old, new):
    """Compiles the mutated file. Returns the sound object's name and its own."""
    source = (ROOT / "src/relay" / file).resolve()
    text = source.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{name}: {file} has {text.count(old)} times: {old!r}")
    folder.mkdir(parents=True, exist_ok=True)
    mutated = folder / source.name
    mutated.write_text(text.replace(old, new))
    compiler = [word for word in shlex.split(os.environ["MUTANT_COMPILE"]) if not word.startswith(("-M", "-W"))]
    subprocess.run([*compiler, "-w", "-c", "-o", mutated.with_suffix(".o"), mutated], cwd=ROOT, check=True)
    return str(source.relative_to(ROOT).with_suffix(".o")), mutated.with_suffix(".o")


def build(name, edits):
    """Links what the edits make in place of what is sound. Returns the program."""
    folder = FOLDER / name
    objects = os.environ["MUTANT_OBJECTS"].split()
    for edit in edits:
        sound, mutant = compiled(folder, name, *edit)
        objects = [mutant if str(word).endswith(sound) else word for word in objects]
    subprocess.run([*shlex.split(os.environ["MUTANT_LINK"]), "-o", folder / "simulation", *objects,
                    *shlex.split(os.environ["MUTANT_LIBS"])], cwd=ROOT, check=True)
    return folder / "simulation"


def caught(program, *options):
    """Runs it until a seed fails: (seed, check), or None."""
    run = subprocess.run([program, "--seeds", str(SEEDS), "--stop", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True, cwd=ROOT)
    found = re.search(r"FAILED seed (\d+): ([\w-]+)", run.stdout)
    return found and (int(found.group(1)), found.group(2))


def judge(kind, name, expected, found):
    good = found is not None and found[1] in expected.split()
    print(f"{'ok' if good else 'NOT OK'}: {kind} {name}: "
          f"{f'{found[1]}, seed {found[0]}' if found else f'nobody noticed in {SEEDS} seeds'}"
          f"{'' if good else f', expected {expected}'}", flush=True)
    return good


def main(names):
    results = []
    sound = ROOT / os.environ["MUTANT_BUILD"] / "tests/simulation/simulation"
    for name, (expected, *edits) in MUTANTS.items():
        if not names or name in names:
            results.append(judge("mutant", name, expected, caught(build(name, edits))))
    for name, expected in BREAKS.items():
        if not names or name in names:
            results.append(judge("break", name, expected, caught(sound, "--break", name)))
    print(f"mutants: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

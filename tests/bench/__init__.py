"""`make bench`: outboxd against what PostgreSQL and librdkafka allow on the same machine, in the same run.

  sizes.py    how much of everything, full or short
  servers.py  PostgreSQL and Kafka with stock settings; a fresh table and topic for each measurement
  measure.py  processor time, WAL, histograms: before, after, difference
  drain.py    one drain, one run of the bare programs; runs that are compared take turns
  cases.py    ceilings, drain, instances; latency.py: latency, footprint; growth.py: how cost grows
  targets.py  what was promised, and whether it holds
  report.py   tables, for the terminal and for docs/performance.md
"""

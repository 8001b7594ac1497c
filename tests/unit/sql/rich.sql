---- statement 0 (parameters 3 0 1 2 4 5 6 7 8)
WITH scanned AS MATERIALIZED (
  SELECT c."id" AS r, c."id" AS id, c."seq" AS ord, c."available_at" AS due, CASE WHEN c."status" = 'PENDING' THEN 0 WHEN c."lease_owner" = $1::text THEN 1 ELSE 2 END AS taken,
         c."aggregate_id" AS key,
         coalesce(octet_length(c."payload"), 0) AS bytes
    FROM "public"."event_outbox" c
   WHERE c."settled_at" IS NULL AND c."available_at" <= now()
     AND (c."status" = 'PENDING' OR (c."status" = 'SENDING' AND coalesce(c."lease_until", '-infinity') <= now() AND coalesce(c."attempts", 0) < least(2, $2::int)))
     AND (
region = '{eu}' -- canary
         )
     AND (c."xid" >= (SELECT pg_snapshot_xmin(pg_current_snapshot()))
          AND c."xid" < (SELECT pg_snapshot_xmax(pg_current_snapshot()))) IS NOT TRUE
   ORDER BY c."available_at", c."seq" LIMIT $3::int FOR UPDATE SKIP LOCKED),
candidate AS MATERIALIZED (
  SELECT * FROM (
    SELECT *, sum(bytes) OVER (ORDER BY due, ord ROWS UNBOUNDED PRECEDING) - bytes AS before FROM scanned) s
   WHERE before = 0 OR before < $4::bigint),
by_key AS MATERIALIZED (
  SELECT g.*, greatest(0, least(n, $5::int - coalesce(
           CASE WHEN cardinality($6::text[]) > 0 THEN
             (SELECT u.held FROM unnest($6::text[], $7::int[]) u (key, held) WHERE u.key = g.key::text) END, 0))) AS room
    FROM (SELECT key, array_agg(r) AS rs, count(*)::int AS n, min(due) AS due
            FROM (SELECT * FROM candidate ORDER BY key, ord) s GROUP BY key) g),
listed AS MATERIALIZED (
  SELECT k.*, h.open[1:k.room] AS open FROM by_key k LEFT JOIN (
    SELECT key, array_agg(r ORDER BY i) AS open FROM (
      SELECT p."aggregate_id" AS key, p."id" AS r, row_number() OVER (PARTITION BY p."aggregate_id" ORDER BY p."seq") AS i
        FROM "public"."event_outbox" p
       WHERE (p."aggregate_id" IN (SELECT key FROM by_key)) IS TRUE
                      AND p."settled_at" IS NULL AND p."status" IN ('PENDING', 'SENDING', 'FAILED')
                      AND (p."status" = 'SENDING' AND p."lease_owner" = $1::text AND coalesce(p."lease_until", '-infinity') > now()) IS NOT TRUE) o
     WHERE i <= $3::int GROUP BY key) h ON h.key = k.key),
run AS MATERIALIZED (
  SELECT key IS NOT NULL AS keyed, rs, n, due, open,
         CASE WHEN key IS NULL OR rs = open THEN n
              ELSE coalesce((SELECT min(i) - 1 FROM generate_subscripts(rs, 1) i
                              WHERE rs[i] IS DISTINCT FROM open[i]), n) END AS free
    FROM listed),
claimed AS (
  UPDATE "public"."event_outbox" o SET "status" = 'SENDING', "attempts" = least(coalesce("attempts", 0), 32766) + 1, "lease_until" = now() + $8::interval, "lease_owner" = $1::text
   WHERE o."id" = ANY (ARRAY(SELECT unnest(rs[1:free]) FROM run))
  RETURNING o."id" AS id, o."seq" AS ord, o."aggregate_id"::text AS key, o."attempts"::int AS attempts, $2::int AS max,
            o."lease_until"::timestamptz AS lease, o."created_at"::timestamptz AS created, o."payload" AS payload,
            o."headers"::text AS headers, o."topic"::text AS topic, o."part"::text AS partition,
            o."at"::bigint AS millis, o."event_type"::text AS template_0, o."aggregate_id"::text AS template_1)
, waiting AS MATERIALIZED (
  SELECT r.rs[r.free + 1 : r.n] AS rs, CASE WHEN b."status" = 'FAILED' OR b."available_at" = 'infinity' THEN '9999-12-31Z'::timestamptz ELSE least(b."available_at", now() + $9::interval) END AS until
    FROM run r JOIN "public"."event_outbox" b ON b."id" = r.open[r.free + 1]
   WHERE r.free < r.n AND b."settled_at" IS NULL AND b."status" IN ('PENDING', 'SENDING', 'FAILED') AND b."status" <> 'SENDING' AND (b."status" = 'FAILED' OR b."available_at" > now())
     FOR NO KEY UPDATE OF b SKIP LOCKED),
parked AS (
  UPDATE "public"."event_outbox" o SET "available_at" = w.until, "status" = 'PENDING', "lease_until" = NULL, "lease_owner" = NULL
    FROM (SELECT unnest(rs) AS r, until FROM waiting) w WHERE o."id" = w.r RETURNING w.r),
late AS MATERIALIZED (
  SELECT b."id" AS r, r.due AS due
    FROM run r CROSS JOIN LATERAL unnest(r.open[r.free + 1 : r.n]) u (r) JOIN "public"."event_outbox" b ON b."id" = u.r
   WHERE r.free < r.n AND u.r <> ALL (r.rs)
     AND (b."status" = 'PENDING' OR (b."status" = 'SENDING' AND coalesce(b."lease_until", '-infinity') <= now())) IS TRUE AND b."available_at" > r.due AND b."available_at" <= now()
     FOR NO KEY UPDATE OF b SKIP LOCKED),
pulled AS (
  UPDATE "public"."event_outbox" o SET "available_at" = l.due FROM late l WHERE o."id" = l.r RETURNING 1)
SELECT tail.*, claimed.id::text, claimed.ord::text, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,
       CASE WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 2) THEN 2
            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 1) THEN 1 ELSE 0 END,
       claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis, claimed.template_0, claimed.template_1
  FROM (SELECT (SELECT count(*) FROM scanned) AS candidates,
               (SELECT count(*) FROM parked) AS parked,
               (SELECT count(*) FROM candidate WHERE taken = 1 AND r IN (SELECT r FROM parked)) AS parked_own,
               (SELECT count(*) FROM candidate WHERE taken = 2 AND r IN (SELECT r FROM parked)) AS parked_foreign, (SELECT count(*) FROM pulled) AS pulled,
               (SELECT CASE WHEN chosen = taken THEN free
                            ELSE concat('outboxd: claim raced, ', taken, ' of ', chosen)::int END
                  FROM (SELECT coalesce(sum(free), 0) AS free, coalesce(sum(free) FILTER (WHERE keyed), 0) AS chosen,
                               (SELECT count(*) FROM claimed WHERE key IS NOT NULL) AS taken FROM run) f) AS free,
               first.due::timestamptz AS first_due, first.ord::text AS first_id,
               last.due::timestamptz AS last_due, last.ord::text AS last_id, 0 AS full
          FROM (VALUES (1)) one LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due, ord LIMIT 1) first ON true LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due DESC, ord DESC LIMIT 1) last ON true) tail
  FULL JOIN claimed ON false ORDER BY claimed.ord NULLS FIRST;

---- statement 1 (parameters 3 9 10 0 1 2 4 5 6 7 8)
WITH scanned AS MATERIALIZED (
  SELECT c."id" AS r, c."id" AS id, c."seq" AS ord, c."available_at" AS due, CASE WHEN c."status" = 'PENDING' THEN 0 WHEN c."lease_owner" = $1::text THEN 1 ELSE 2 END AS taken,
         c."aggregate_id" AS key,
         coalesce(octet_length(c."payload"), 0) AS bytes
    FROM "public"."event_outbox" c
   WHERE c."settled_at" IS NULL AND c."available_at" <= now()
     AND (c."available_at", c."seq") > ($2::timestamptz, $3::text::bigint)
     AND (c."status" = 'PENDING' OR (c."status" = 'SENDING' AND coalesce(c."lease_until", '-infinity') <= now() AND coalesce(c."attempts", 0) < least(2, $4::int)))
     AND (
region = '{eu}' -- canary
         )
     AND (c."xid" >= (SELECT pg_snapshot_xmin(pg_current_snapshot()))
          AND c."xid" < (SELECT pg_snapshot_xmax(pg_current_snapshot()))) IS NOT TRUE
   ORDER BY c."available_at", c."seq" LIMIT $5::int FOR UPDATE SKIP LOCKED),
candidate AS MATERIALIZED (
  SELECT * FROM (
    SELECT *, sum(bytes) OVER (ORDER BY due, ord ROWS UNBOUNDED PRECEDING) - bytes AS before FROM scanned) s
   WHERE before = 0 OR before < $6::bigint),
by_key AS MATERIALIZED (
  SELECT g.*, greatest(0, least(n, $7::int - coalesce(
           CASE WHEN cardinality($8::text[]) > 0 THEN
             (SELECT u.held FROM unnest($8::text[], $9::int[]) u (key, held) WHERE u.key = g.key::text) END, 0))) AS room
    FROM (SELECT key, array_agg(r) AS rs, count(*)::int AS n, min(due) AS due
            FROM (SELECT * FROM candidate ORDER BY key, ord) s GROUP BY key) g),
listed AS MATERIALIZED (
  SELECT k.*, h.open[1:k.room] AS open FROM by_key k LEFT JOIN (
    SELECT key, array_agg(r ORDER BY i) AS open FROM (
      SELECT p."aggregate_id" AS key, p."id" AS r, row_number() OVER (PARTITION BY p."aggregate_id" ORDER BY p."seq") AS i
        FROM "public"."event_outbox" p
       WHERE (p."aggregate_id" IN (SELECT key FROM by_key)) IS TRUE
                      AND p."settled_at" IS NULL AND p."status" IN ('PENDING', 'SENDING', 'FAILED')
                      AND (p."status" = 'SENDING' AND p."lease_owner" = $1::text AND coalesce(p."lease_until", '-infinity') > now()) IS NOT TRUE) o
     WHERE i <= $5::int GROUP BY key) h ON h.key = k.key),
run AS MATERIALIZED (
  SELECT key IS NOT NULL AS keyed, rs, n, due, open,
         CASE WHEN key IS NULL OR rs = open THEN n
              ELSE coalesce((SELECT min(i) - 1 FROM generate_subscripts(rs, 1) i
                              WHERE rs[i] IS DISTINCT FROM open[i]), n) END AS free
    FROM listed),
claimed AS (
  UPDATE "public"."event_outbox" o SET "status" = 'SENDING', "attempts" = least(coalesce("attempts", 0), 32766) + 1, "lease_until" = now() + $10::interval, "lease_owner" = $1::text
   WHERE o."id" = ANY (ARRAY(SELECT unnest(rs[1:free]) FROM run))
  RETURNING o."id" AS id, o."seq" AS ord, o."aggregate_id"::text AS key, o."attempts"::int AS attempts, $4::int AS max,
            o."lease_until"::timestamptz AS lease, o."created_at"::timestamptz AS created, o."payload" AS payload,
            o."headers"::text AS headers, o."topic"::text AS topic, o."part"::text AS partition,
            o."at"::bigint AS millis, o."event_type"::text AS template_0, o."aggregate_id"::text AS template_1)
, waiting AS MATERIALIZED (
  SELECT r.rs[r.free + 1 : r.n] AS rs, CASE WHEN b."status" = 'FAILED' OR b."available_at" = 'infinity' THEN '9999-12-31Z'::timestamptz ELSE least(b."available_at", now() + $11::interval) END AS until
    FROM run r JOIN "public"."event_outbox" b ON b."id" = r.open[r.free + 1]
   WHERE r.free < r.n AND b."settled_at" IS NULL AND b."status" IN ('PENDING', 'SENDING', 'FAILED') AND b."status" <> 'SENDING' AND (b."status" = 'FAILED' OR b."available_at" > now())
     FOR NO KEY UPDATE OF b SKIP LOCKED),
parked AS (
  UPDATE "public"."event_outbox" o SET "available_at" = w.until, "status" = 'PENDING', "lease_until" = NULL, "lease_owner" = NULL
    FROM (SELECT unnest(rs) AS r, until FROM waiting) w WHERE o."id" = w.r RETURNING w.r),
late AS MATERIALIZED (
  SELECT b."id" AS r, r.due AS due
    FROM run r CROSS JOIN LATERAL unnest(r.open[r.free + 1 : r.n]) u (r) JOIN "public"."event_outbox" b ON b."id" = u.r
   WHERE r.free < r.n AND u.r <> ALL (r.rs)
     AND (b."status" = 'PENDING' OR (b."status" = 'SENDING' AND coalesce(b."lease_until", '-infinity') <= now())) IS TRUE AND b."available_at" > r.due AND b."available_at" <= now()
     FOR NO KEY UPDATE OF b SKIP LOCKED),
pulled AS (
  UPDATE "public"."event_outbox" o SET "available_at" = l.due FROM late l WHERE o."id" = l.r RETURNING 1)
SELECT tail.*, claimed.id::text, claimed.ord::text, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,
       CASE WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 2) THEN 2
            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 1) THEN 1 ELSE 0 END,
       claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis, claimed.template_0, claimed.template_1
  FROM (SELECT (SELECT count(*) FROM scanned) AS candidates,
               (SELECT count(*) FROM parked) AS parked,
               (SELECT count(*) FROM candidate WHERE taken = 1 AND r IN (SELECT r FROM parked)) AS parked_own,
               (SELECT count(*) FROM candidate WHERE taken = 2 AND r IN (SELECT r FROM parked)) AS parked_foreign, (SELECT count(*) FROM pulled) AS pulled,
               (SELECT CASE WHEN chosen = taken THEN free
                            ELSE concat('outboxd: claim raced, ', taken, ' of ', chosen)::int END
                  FROM (SELECT coalesce(sum(free), 0) AS free, coalesce(sum(free) FILTER (WHERE keyed), 0) AS chosen,
                               (SELECT count(*) FROM claimed WHERE key IS NOT NULL) AS taken FROM run) f) AS free,
               first.due::timestamptz AS first_due, first.ord::text AS first_id,
               last.due::timestamptz AS last_due, last.ord::text AS last_id, 0 AS full
          FROM (VALUES (1)) one LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due, ord LIMIT 1) first ON true LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due DESC, ord DESC LIMIT 1) last ON true) tail
  FULL JOIN claimed ON false ORDER BY claimed.ord NULLS FIRST;

---- statement 2 (parameters 3 0 7 8)
WITH candidate AS MATERIALIZED (
  SELECT c."id" AS r, c."seq" AS ord, c."aggregate_id" AS key, CASE WHEN c."status" = 'PENDING' THEN 0 WHEN c."lease_owner" = $1::text THEN 1 ELSE 2 END AS taken FROM "public"."event_outbox" c
   WHERE c."settled_at" IS NULL AND c."available_at" <= now() AND c."status" = 'SENDING' AND coalesce(c."lease_until", '-infinity') <= now() AND coalesce(c."attempts", 0) >= 2 AND coalesce(c."attempts", 0) < $2::int
     AND (
region = '{eu}' -- canary
         )
   ORDER BY c."available_at", c."seq" LIMIT 100 FOR UPDATE SKIP LOCKED),
by_key AS MATERIALIZED (SELECT key, array_agg(r ORDER BY ord) AS rs FROM candidate GROUP BY key),
head AS MATERIALIZED (
  SELECT k.rs, coalesce(h.r, k.rs[1]) AS r FROM by_key k LEFT JOIN (
      SELECT DISTINCT ON (p."aggregate_id") p."aggregate_id" AS key, p."id" AS r FROM "public"."event_outbox" p
       WHERE (p."aggregate_id" IN (SELECT key FROM by_key)) IS TRUE AND p."settled_at" IS NULL AND p."status" IN ('PENDING', 'SENDING', 'FAILED')
       ORDER BY p."aggregate_id", p."seq") h ON h.key = k.key),
one AS MATERIALIZED (
  SELECT o."id" AS r, CASE WHEN o."status" = 'PENDING' THEN 0 WHEN o."lease_owner" = $1::text THEN 1 ELSE 2 END AS taken FROM "public"."event_outbox" o
   WHERE o."id" = ANY (ARRAY(SELECT r FROM head))
     AND o."settled_at" IS NULL AND o."available_at" <= now() AND o."status" = 'SENDING' AND coalesce(o."lease_until", '-infinity') <= now() AND coalesce(o."attempts", 0) >= 2 AND coalesce(o."attempts", 0) < $2::int
     AND (
region = '{eu}' -- canary
         )
   LIMIT 1 FOR UPDATE SKIP LOCKED),
claimed AS (
  UPDATE "public"."event_outbox" o SET "status" = 'SENDING', "attempts" = least(coalesce("attempts", 0), 32766) + 1, "lease_until" = now() + $3::interval, "lease_owner" = $1::text
   WHERE o."id" = ANY (ARRAY(SELECT r FROM one))
  RETURNING o."id" AS id, o."seq" AS ord, o."aggregate_id"::text AS key, o."attempts"::int AS attempts, $2::int AS max,
            o."lease_until"::timestamptz AS lease, o."created_at"::timestamptz AS created, o."payload" AS payload,
            o."headers"::text AS headers, o."topic"::text AS topic, o."part"::text AS partition,
            o."at"::bigint AS millis, o."event_type"::text AS template_0, o."aggregate_id"::text AS template_1)
, waiting AS MATERIALIZED (
  SELECT h.rs, CASE WHEN b."status" = 'FAILED' OR b."available_at" = 'infinity' THEN '9999-12-31Z'::timestamptz ELSE least(b."available_at", now() + $4::interval) END AS until FROM head h JOIN "public"."event_outbox" b ON b."id" = h.r
   WHERE b."settled_at" IS NULL AND b."status" IN ('PENDING', 'SENDING', 'FAILED') AND b."status" <> 'SENDING' AND (b."status" = 'FAILED' OR b."available_at" > now())
     FOR NO KEY UPDATE OF b SKIP LOCKED),
parked AS (
  UPDATE "public"."event_outbox" o SET "available_at" = w.until, "status" = 'PENDING', "lease_until" = NULL, "lease_owner" = NULL
    FROM (SELECT unnest(rs) AS r, until FROM waiting) w WHERE o."id" = w.r RETURNING w.r)
SELECT tail.*, claimed.id::text, claimed.ord::text, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,
       CASE WHEN claimed.id IS NOT NULL THEN (SELECT taken FROM one) END,
       claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis, claimed.template_0, claimed.template_1
  FROM (SELECT 0::bigint AS candidates, (SELECT count(*) FROM parked) AS parked,
               (SELECT count(*) FROM candidate WHERE taken = 1 AND r IN (SELECT r FROM parked)) AS parked_own,
               (SELECT count(*) FROM candidate WHERE taken = 2 AND r IN (SELECT r FROM parked)) AS parked_foreign, 0::bigint AS pulled, (SELECT count(*) FROM one) AS free,
               NULL::timestamptz AS first_due, NULL::text AS first_id,
               NULL::timestamptz AS last_due, NULL::text AS last_id, 0 AS full) tail
  FULL JOIN claimed ON false ORDER BY claimed.id NULLS FIRST;

---- statement 3 (parameters 0)
UPDATE "public"."event_outbox" SET "status" = 'FAILED', "available_at" = '9999-12-31Z'::timestamptz, "lease_until" = NULL, "lease_owner" = NULL
     , "last_error" = format('lease expired, attempt %s of %s', "attempts", $1::int)::character varying(20)
 WHERE "id" = ANY (ARRAY(SELECT p."id" FROM "public"."event_outbox" p
                          WHERE p."settled_at" IS NULL AND p."available_at" <= now() AND p."status" = 'SENDING' AND coalesce(p."lease_until", '-infinity') <= now() AND coalesce(p."attempts", 0) >= $1::int
     AND (
region = '{eu}' -- canary
         )
                          ORDER BY p."available_at", p."seq" LIMIT 500 FOR UPDATE SKIP LOCKED))
RETURNING "id"::text, 0, ("status" = 'FAILED')::int;

---- statement 4 (parameters 12 18 19 17 11)
UPDATE "public"."event_outbox" o
   SET "status" = 'SENT', "lease_until" = NULL, "lease_owner" = NULL
     , "last_error" = NULL
     , "settled_at" = now()
  FROM unnest($1::timestamptz[], $2::int[], $3::int[]
     , $4::text[]
     ) AS x (lease, first, last
     , owner
     )
 WHERE o."id" = ANY (($5::text[])[x.first:x.last]::uuid[]) AND CASE WHEN o."status" = 'SENDING' THEN o."lease_until" = x.lease AND o."lease_owner" = x.owner END
RETURNING o."id"::text;

---- statement 5 (parameters 11 12 13 14 15 16 17)
UPDATE "public"."event_outbox" o
   SET "status" = x.status::public."State", "attempts" = greatest(coalesce(o."attempts", 0) - x.back, 0),
       "available_at" = CASE WHEN x.status = 'FAILED' THEN '9999-12-31Z'::timestamptz
            WHEN x.delay > '0' THEN now() + x.delay ELSE o."available_at" END
     , "last_error" = coalesce(x.error, o."last_error")::character varying(20)
       , "lease_until" = NULL, "lease_owner" = NULL
  FROM unnest($1::text[]::uuid[], $2::timestamptz[], $3::text[], $4::interval[], $5::int[]
     , $6::text[]
     , $7::text[]
     ) AS x (id, lease, status, delay, back
     , error
     , owner
     )
 WHERE o."id" BETWEEN x.id AND x.id AND CASE WHEN o."status" = 'SENDING' THEN o."lease_until" = x.lease AND o."lease_owner" = x.owner END
RETURNING o."id"::text;

---- statement 6 (parameters)
WITH
keys AS MATERIALIZED (
  SELECT DISTINCT p."aggregate_id" AS key FROM "public"."event_outbox" p
   WHERE p."settled_at" IS NULL AND p."available_at" = '9999-12-31Z'::timestamptz AND p."status" IN ('PENDING', 'SENDING')),
free AS MATERIALIZED (
  SELECT h.key FROM (
    SELECT DISTINCT ON (p."aggregate_id") p."aggregate_id" AS key, p."status" AS status, p."available_at" AS due FROM "public"."event_outbox" p
     WHERE (p."aggregate_id" IN (SELECT key FROM keys)) IS TRUE AND p."settled_at" IS NULL AND p."status" IN ('PENDING', 'SENDING', 'FAILED')
     ORDER BY p."aggregate_id", p."seq") h
   WHERE h.status <> 'FAILED' AND h.due <> 'infinity'),
freed AS (
  UPDATE "public"."event_outbox" SET "available_at" = now()
   WHERE "id" = ANY (ARRAY(
     SELECT p."id" FROM "public"."event_outbox" p
      WHERE p."settled_at" IS NULL AND p."available_at" = '9999-12-31Z'::timestamptz AND p."status" IN ('PENDING', 'SENDING')
        AND (p."aggregate_id" IS NULL OR p."aggregate_id" IN (SELECT key FROM free))
      ORDER BY p."seq" LIMIT 10000 FOR UPDATE SKIP LOCKED
   )) RETURNING 1)
SELECT count(*) FROM freed;

---- statement 7 (parameters 0)
WITH front AS MATERIALIZED (
  SELECT p."status" AS status, p."available_at" AS due, coalesce(p."lease_until", '-infinity') AS lease_end,
         (coalesce(p."attempts", 0) >= 2 AND coalesce(p."attempts", 0) < $1::int) AS crasher, coalesce(p."attempts", 0) >= $1::int AS used_up,
         CASE WHEN isfinite(p."created_at") THEN (extract(epoch FROM now() - p."created_at") * 1000000)::bigint END AS age, p."aggregate_id"::text AS key, CASE WHEN p."status" = 'SENDING' AND coalesce(p."lease_until", '-infinity') <= now() THEN (
region = '{eu}' -- canary
         ) END AS wanted
    FROM "public"."event_outbox" p WHERE p."settled_at" IS NULL AND p."available_at" < '9999-12-31Z'::timestamptz
   ORDER BY p."available_at", p."seq" LIMIT 100000),
back AS MATERIALIZED (
  SELECT p."status" AS status, p."available_at" AS due, coalesce(p."lease_until", '-infinity') AS lease_end,
         (coalesce(p."attempts", 0) >= 2 AND coalesce(p."attempts", 0) < $1::int) AS crasher, coalesce(p."attempts", 0) >= $1::int AS used_up,
         CASE WHEN isfinite(p."created_at") THEN (extract(epoch FROM now() - p."created_at") * 1000000)::bigint END AS age, p."aggregate_id"::text AS key, CASE WHEN p."status" = 'SENDING' AND coalesce(p."lease_until", '-infinity') <= now() THEN (
region = '{eu}' -- canary
         ) END AS wanted
    FROM "public"."event_outbox" p WHERE p."settled_at" IS NULL AND p."available_at" >= '9999-12-31Z'::timestamptz
   ORDER BY p."available_at", p."seq" LIMIT 100000),
unfinished AS (SELECT * FROM front UNION ALL SELECT * FROM back),
failed AS (SELECT key FROM unfinished WHERE status = 'FAILED'),
n AS (
  SELECT count(*) FILTER (WHERE status = 'PENDING' AND due < '9999-12-31Z'::timestamptz) AS pending,
         count(*) FILTER (WHERE status = 'PENDING' AND due >= '9999-12-31Z'::timestamptz) AS parked,
         count(*) FILTER (WHERE status = 'SENDING') AS in_flight,
         count(*) FILTER (WHERE status IS NULL
                          OR status NOT IN ('PENDING', 'SENDING', 'SENT', 'FAILED')) AS unknown,
         count(*) FILTER (WHERE wanted AND status = 'SENDING' AND due <= now() AND lease_end <= now() AND crasher) AS suspects,
         count(*) FILTER (WHERE wanted AND status = 'SENDING' AND due <= now() AND lease_end <= now() AND used_up) AS exhausted,
         max(CASE WHEN age < 0 THEN 0 ELSE age END) FILTER (WHERE status IN ('PENDING', 'SENDING')) AS oldest
    FROM unfinished)
SELECT pending, parked, in_flight, (SELECT count(*) FROM failed), unknown, (SELECT count(DISTINCT key) FROM failed),
       suspects, exhausted, oldest,
       CASE WHEN (SELECT count(*) FROM front) >= 100000 OR (SELECT count(*) FROM back) >= 100000
            THEN 1 ELSE 0 END,
       greatest(txid_snapshot_xmax(s) - txid_snapshot_xmin(s),
                (SELECT max(age(a.backend_xmin)) FROM pg_stat_activity a
                  WHERE a.datname = current_database() OR a.datname IS NULL),
                (SELECT max(age(r.xmin)) FROM pg_replication_slots r))::bigint
  FROM n, txid_current_snapshot() s;

---- statement 8 (parameters 22 1)
WITH picked AS MATERIALIZED (
  SELECT p."id" AS id, p."seq" AS ord, p."aggregate_id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "public"."event_outbox" p WHERE p."status" = 'FAILED' AND p."settled_at" IS NULL AND ($1::text IS NULL OR strpos(p."last_error"::text, $1::text) > 0)
   ORDER BY p."available_at", p."seq"
   LIMIT $2::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 9 (parameters 22 21 1)
WITH picked AS MATERIALIZED (
  SELECT p."id" AS id, p."seq" AS ord, p."aggregate_id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "public"."event_outbox" p WHERE p."status" = 'FAILED' AND p."settled_at" IS NULL AND ($1::text IS NULL OR strpos(p."last_error"::text, $1::text) > 0)
     AND p."aggregate_id" BETWEEN $2::text::character varying AND $2::text::character varying
   ORDER BY p."available_at", p."seq"
   LIMIT $3::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 10 (parameters 11 20 22 1)
WITH picked AS MATERIALIZED (
  SELECT f.* FROM (SELECT DISTINCT id FROM unnest($1::text[]::uuid[]) g (id)) u CROSS JOIN LATERAL (
  SELECT p."id" AS id, p."seq" AS ord, p."aggregate_id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "public"."event_outbox" p WHERE p."id" BETWEEN u.id AND u.id AND (p."status" = 'FAILED' AND (p."settled_at" IS NULL OR $2::int > 0)) IS TRUE AND ($3::text IS NULL OR strpos(p."last_error"::text, $3::text) > 0) OFFSET 0) f
   LIMIT $4::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 11 (parameters 11 20 22 1)
WITH picked AS MATERIALIZED (
  SELECT f.* FROM (SELECT DISTINCT id FROM unnest($1::text[]::uuid[]) g (id)) u CROSS JOIN LATERAL (
  SELECT p."id" AS id, p."seq" AS ord, p."aggregate_id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "public"."event_outbox" p WHERE p."id" BETWEEN u.id AND u.id AND ((p."status" = 'FAILED' OR (p."status" = 'PENDING' AND $2::int > 0)) AND p."settled_at" IS NULL) IS TRUE AND ($3::text IS NULL OR strpos(p."last_error"::text, $3::text) > 0) OFFSET 0) f
   LIMIT $4::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 12 (parameters 11 20 22)
UPDATE "public"."event_outbox" SET "status" = 'PENDING', "attempts" = 0, "available_at" = now(), "lease_until" = NULL, "lease_owner" = NULL
     , "settled_at" = NULL
     , "last_error" = CASE WHEN "last_error" LIKE 'skipped: %' THEN NULL ELSE "last_error" END
 WHERE "id" = ANY (ARRAY(
   SELECT p."id" FROM unnest($1::text[]::uuid[]) u (id) JOIN "public"."event_outbox" p ON p."id" BETWEEN u.id AND u.id
    WHERE (p."status" = 'FAILED' AND (p."settled_at" IS NULL OR $2::int > 0)) IS TRUE AND ($3::text IS NULL OR strpos(p."last_error"::text, $3::text) > 0) FOR UPDATE OF p))
RETURNING "id"::text, "aggregate_id"::text,
          NULL::timestamptz;

---- statement 13 (parameters 23 11 20 22)
UPDATE "public"."event_outbox" SET "status" = 'FAILED', "lease_until" = NULL, "lease_owner" = NULL
     , "settled_at" = now()
     , "last_error" = ('skipped: ' || $1::text)::character varying(20)
 WHERE "id" = ANY (ARRAY(
   SELECT p."id" FROM unnest($2::text[]::uuid[]) u (id) JOIN "public"."event_outbox" p ON p."id" BETWEEN u.id AND u.id
    WHERE ((p."status" = 'FAILED' OR (p."status" = 'PENDING' AND $3::int > 0)) AND p."settled_at" IS NULL) IS TRUE AND ($4::text IS NULL OR strpos(p."last_error"::text, $4::text) > 0) FOR UPDATE OF p))
RETURNING "id"::text, "aggregate_id"::text,
          CASE WHEN coalesce("attempts", 0) > 0 THEN "available_at"::timestamptz END;

---- statement 14 (parameters 24 25)
WITH
keys AS MATERIALIZED (SELECT DISTINCT u.key::character varying AS key FROM unnest($1::text[]) u (key)),
free AS MATERIALIZED (
  SELECT h.key FROM (
    SELECT DISTINCT ON (p."aggregate_id") p."aggregate_id" AS key, p."status" AS status, p."available_at" AS due FROM "public"."event_outbox" p
     WHERE (p."aggregate_id" IN (SELECT key FROM keys)) IS TRUE AND p."settled_at" IS NULL AND p."status" IN ('PENDING', 'SENDING', 'FAILED')
     ORDER BY p."aggregate_id", p."seq") h
   WHERE h.status <> 'FAILED' AND h.due <> 'infinity'),
places AS MATERIALIZED (
  SELECT key, '9999-12-31Z'::timestamptz AS due FROM free UNION
  SELECT f.key, u.until FROM unnest($1::text[], $2::timestamptz[]) u (key, until) JOIN free f ON f.key = u.key::character varying
   WHERE u.until > now()),
freed AS (
  UPDATE "public"."event_outbox" SET "available_at" = now()
   WHERE "id" = ANY (ARRAY(
     SELECT p."id" FROM "public"."event_outbox" p
      WHERE p."settled_at" IS NULL AND p."available_at" = ANY (ARRAY(SELECT DISTINCT due FROM places)) AND p."status" = 'PENDING'
        AND ((p."aggregate_id", p."available_at") IN (SELECT key, due FROM places)) IS TRUE LIMIT 10000 FOR UPDATE SKIP LOCKED
   )) RETURNING 1)
SELECT count(*) FROM freed;

---- statement 15 (parameters)
SELECT FROM "public"."event_outbox" c WHERE true
     AND (
region = '{eu}' -- canary
         ) LIMIT 0;

---- statement 16 (parameters)
WITH front AS MATERIALIZED (
  SELECT p."id" AS r, pg_column_size(p."payload") AS size, p."status"::text AS status,
         p."lease_owner"::text AS owner
    FROM "public"."event_outbox" p WHERE p."settled_at" IS NULL ORDER BY p."available_at", p."seq" LIMIT 10000),
newest AS MATERIALIZED (
  SELECT p."status"::text AS status FROM "public"."event_outbox" p ORDER BY p."seq" DESC LIMIT 10000),
large AS MATERIALIZED (SELECT r FROM front ORDER BY size DESC NULLS LAST LIMIT 20),
strange AS (
  SELECT status FROM front UNION SELECT status FROM newest)
SELECT coalesce((SELECT max(octet_length(p."payload")) FROM "public"."event_outbox" p WHERE p."id" = ANY (ARRAY(SELECT r FROM large))), 0)::text,
       (SELECT coalesce(json_agg(status ORDER BY status), '[]')::text FROM strange
         WHERE status IS NULL OR status NOT IN ('PENDING'::text, 'SENDING'::text, 'SENT'::text, 'FAILED'::text)),
       (SELECT coalesce(json_agg(DISTINCT owner), '[]')::text FROM front
         WHERE status = 'SENDING'::text AND owner IS NOT NULL);

---- statement 17 (parameters 26 27)
SELECT n.nspname::text, c.relname::text,
       CASE WHEN c.relkind = 'r' AND c.relhassubclass THEN 'p' ELSE c.relkind::text END,
       a.attname::text, format_type(a.atttypid, a.atttypmod),
       (base.oid = 'bytea'::regtype)::text, a.attnotnull::text,
       (base.oid IN ('timestamptz'::regtype, 'timestamp'::regtype)
         AND (CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END) IN (-1, 6))::text,
       EXISTS (SELECT FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = i.indkey[0]
                WHERE k.attname = $2::text AND i.indisvalid AND i.indrelid IN (
                  SELECT c.oid UNION ALL
                  SELECT d.refobjid FROM pg_rewrite r JOIN pg_depend d
                    ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
                   WHERE r.ev_class = c.oid AND c.relkind = 'v'))::text,
       has_table_privilege(c.oid, 'DELETE')::text,
       (to_regprocedure('pg_catalog.pg_column_compression("any")') IS NOT NULL)::text,
       has_column_privilege(c.oid, a.attnum, 'SELECT')::text, has_column_privilege(c.oid, a.attnum, 'UPDATE')::text,
       (SELECT to_json(array_agg(e.enumlabel::text))::text FROM pg_enum e WHERE e.enumtypid = base.oid),
       quote_ident(current_user),
       CASE WHEN c.relkind = 'r' THEN has_column_privilege(c.oid, (-1)::int2, 'SELECT')
            ELSE has_any_column_privilege(c.oid, 'SELECT') END::text,
       row_security_active(c.oid)::text,
       (row_security_active(c.oid) AND 2 > (
         SELECT (count(*) FILTER (WHERE p.polcmd IN ('r', '*')) > 0)::int + (count(*) FILTER (WHERE p.polcmd IN ('w', '*')) > 0)::int
           FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive
            AND EXISTS (SELECT FROM unnest(p.polroles) o WHERE o = 0 OR pg_has_role(o, 'USAGE'))))::text,
       (c.relkind = 'v' AND pg_relation_is_updatable(c.oid, true) & 4 = 0)::text
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_type base ON base.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
 WHERE c.oid = to_regclass($1::text) ORDER BY a.attnum;

---- schema
-- The table of source orders. Run this as the role that owns the application's tables.
BEGIN;

CREATE TABLE "public"."event_outbox" (
  "id" uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
  "seq" bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  "event_id" uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
  "aggregate_id" text,
  "event_type" text NOT NULL,
  "payload" jsonb,
  "headers" jsonb,
  "topic" text,
  "part" integer,
  "at" timestamptz,
  "status" text NOT NULL DEFAULT 'PENDING'
    CHECK ("status" IN ('PENDING', 'SENDING', 'SENT', 'FAILED')),
  "attempts" integer NOT NULL DEFAULT 0,
  "available_at" timestamptz NOT NULL DEFAULT now(),
  "lease_until" timestamptz,
  "lease_owner" text,
  "last_error" text,
  "created_at" timestamptz NOT NULL DEFAULT now(),
  "settled_at" timestamptz,
  "xid" xid8 DEFAULT pg_current_xact_id(),
  -- A finished row that somebody sets pending would never be sent: settled_at must be NULL again too.
  CONSTRAINT "outboxd_settled" CHECK ("settled_at" IS NULL OR "status" NOT IN ('PENDING', 'SENDING'))
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

COMMENT ON TABLE "public"."event_outbox" IS 'Outbox: rows written here in a transaction are published to Kafka by outboxd.';
COMMENT ON COLUMN "public"."event_outbox"."event_id" IS 'Names the event for consumers, who drop repeats by it. Time-ordered values (UUIDv7) keep its index small.';
COMMENT ON COLUMN "public"."event_outbox"."aggregate_id" IS 'Kafka key; rows of one key are delivered in order.';
COMMENT ON COLUMN "public"."event_outbox"."payload" IS 'Kafka value; NULL is a tombstone.';
COMMENT ON COLUMN "public"."event_outbox"."headers" IS 'More Kafka headers, as a JSON object.';
COMMENT ON COLUMN "public"."event_outbox"."topic" IS 'Kafka topic; NULL: the configuration''s template.';
COMMENT ON COLUMN "public"."event_outbox"."part" IS 'Kafka partition; NULL: by the key.';
COMMENT ON COLUMN "public"."event_outbox"."at" IS 'Timestamp of the Kafka record; NULL: when it is published.';
COMMENT ON COLUMN "public"."event_outbox"."status" IS 'Written by outboxd: see outboxd states.';
COMMENT ON COLUMN "public"."event_outbox"."attempts" IS 'Claims so far, the present one included.';
COMMENT ON COLUMN "public"."event_outbox"."available_at" IS 'Not sent before; infinity holds the row; 9999-12-31 is written by outboxd.';
COMMENT ON COLUMN "public"."event_outbox"."lease_until" IS 'While in flight: until when the row belongs to the instance that claimed it.';
COMMENT ON COLUMN "public"."event_outbox"."lease_owner" IS 'While in flight: the instance that claimed it.';
COMMENT ON COLUMN "public"."event_outbox"."last_error" IS 'Why the row was not delivered the last time.';
COMMENT ON COLUMN "public"."event_outbox"."settled_at" IS 'When the row was finished, sent or skipped; NULL: unfinished.';
COMMENT ON COLUMN "public"."event_outbox"."xid" IS 'The transaction that wrote the row; not to be set.';

-- What is due, and nothing else: each claim begins here.
CREATE INDEX "event_outbox_due"
  ON "public"."event_outbox" ("available_at", "seq") WHERE "settled_at" IS NULL;
-- The unfinished rows of a key, in order.
CREATE INDEX "event_outbox_key"
  ON "public"."event_outbox" ("aggregate_id", "seq") WHERE "settled_at" IS NULL;

-- Wakes the relay at once. It fires once a statement, and PostgreSQL folds repeats within a transaction; without it
-- rows wait for the next poll. Commits that notify wait for one another: with very many writers leave it out.
CREATE OR REPLACE FUNCTION "public"."event_outbox_notify"() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS
'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';
CREATE TRIGGER "event_outbox_notify" AFTER INSERT ON "public"."event_outbox"
  FOR EACH STATEMENT EXECUTE FUNCTION "public"."event_outbox_notify"('outboxd_orders');

-- A role that can relay and nothing else:
-- CREATE ROLE outboxd LOGIN;
-- GRANT USAGE ON SCHEMA "public" TO outboxd;
-- GRANT SELECT ON "public"."event_outbox" TO outboxd;
-- GRANT UPDATE ("status", "attempts", "available_at", "lease_until", "lease_owner", "last_error", "settled_at") ON "public"."event_outbox" TO outboxd;

COMMIT;

---- schema --adopt
-- What an existing table may lack for source orders. Run it with psql as the table's owner, outside of a transaction;
-- what is there already is left as it is. When a statement fails on the lock timeout, run all of it again. An index
-- that was interrupted stays behind INVALID: drop it first. On a partitioned table leave out CONCURRENTLY.
SET lock_timeout = '2s';

-- Columns the relay writes. None of these rewrites the table; each takes ACCESS EXCLUSIVE for a moment.
-- Rows that are there before the column count as sent; those that come after are pending.
DO $outboxd$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '"public"."event_outbox"'::regclass AND NOT attisdropped AND attname = 'status') THEN
    ALTER TABLE "public"."event_outbox" ADD COLUMN "status" text NOT NULL DEFAULT 'SENT';
    ALTER TABLE "public"."event_outbox" ALTER COLUMN "status" SET DEFAULT 'PENDING';
  END IF;
END $outboxd$;
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "available_at" timestamptz NOT NULL DEFAULT now();
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "lease_owner" text;
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "last_error" text;
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "created_at" timestamptz NOT NULL DEFAULT now();
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "settled_at" timestamptz;

-- The order of rows, for their id has none. STRONG: adding it writes the whole table anew, and nobody reads or
-- writes it meanwhile. With much history, delete what is finished first.
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "seq" bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "event_outbox_order" ON "public"."event_outbox" ("seq");

-- The transaction that writes a row; NULL for those that are there.
ALTER TABLE "public"."event_outbox" ADD COLUMN IF NOT EXISTS "xid" xid8;
ALTER TABLE "public"."event_outbox" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();

-- History is finished: 10000 rows a transaction. It may be stopped and run again. Failed rows are left alone: with
-- ordering by key they hold back the later rows of their keys until they are retried or skipped.
DO $outboxd$ DECLARE
  outboxd_from "public"."event_outbox"."id"%TYPE;
  outboxd_to "public"."event_outbox"."id"%TYPE;
BEGIN
  SELECT "id" INTO outboxd_from FROM "public"."event_outbox" ORDER BY "id" LIMIT 1;
  WHILE outboxd_from IS DISTINCT FROM outboxd_to LOOP
    outboxd_from := coalesce(outboxd_to, outboxd_from);
    SELECT c."id" INTO outboxd_to FROM (SELECT "id" FROM "public"."event_outbox" WHERE "id" >= outboxd_from ORDER BY "id" LIMIT 10000) c
     ORDER BY c."id" DESC LIMIT 1;
    UPDATE "public"."event_outbox" SET "settled_at" = now()
     WHERE "id" BETWEEN outboxd_from AND outboxd_to AND "settled_at" IS NULL AND "status" = 'SENT';
    COMMIT;
  END LOOP;
END $outboxd$;

-- The first index is for "available_at" NOT NULL. If it may be NULL, index
-- coalesce("available_at", '-infinity') instead.

-- What is due, and nothing else: each claim begins here.
CREATE INDEX CONCURRENTLY IF NOT EXISTS "event_outbox_due"
  ON "public"."event_outbox" ("available_at", "seq") WHERE "settled_at" IS NULL;
-- The unfinished rows of a key, in order.
CREATE INDEX CONCURRENTLY IF NOT EXISTS "event_outbox_key"
  ON "public"."event_outbox" ("aggregate_id", "seq") WHERE "settled_at" IS NULL;

-- A finished row that somebody sets pending would never be sent: settled_at must be NULL again too.
DO $outboxd$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = '"public"."event_outbox"'::regclass AND conname = 'outboxd_settled') THEN
    ALTER TABLE "public"."event_outbox" ADD CONSTRAINT "outboxd_settled"
      CHECK ("settled_at" IS NULL OR "status" NOT IN ('PENDING', 'SENDING')) NOT VALID;
  END IF;
END $outboxd$;
ALTER TABLE "public"."event_outbox" VALIDATE CONSTRAINT "outboxd_settled";

-- Room for HOT updates in pages written from now on, and an early vacuum (a partitioned table takes these
-- on its partitions only).
ALTER TABLE "public"."event_outbox" SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_cost_delay = 0);

-- Wakes the relay at once. It fires once a statement, and PostgreSQL folds repeats within a transaction; without it
-- rows wait for the next poll. Commits that notify wait for one another: with very many writers leave it out.
CREATE OR REPLACE FUNCTION "public"."event_outbox_notify"() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS
'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';
-- SHARE ROW EXCLUSIVE for a moment: it waits for the transactions that are writing, and writers wait for it.
DO $outboxd$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = '"public"."event_outbox"'::regclass AND tgname = 'event_outbox_notify') THEN
    CREATE TRIGGER "event_outbox_notify" AFTER INSERT ON "public"."event_outbox"
      FOR EACH STATEMENT EXECUTE FUNCTION "public"."event_outbox_notify"('outboxd_orders');
  END IF;
END $outboxd$;

-- A role that can relay and nothing else:
-- CREATE ROLE outboxd LOGIN;
-- GRANT USAGE ON SCHEMA "public" TO outboxd;
-- GRANT SELECT ON "public"."event_outbox" TO outboxd;
-- GRANT UPDATE ("status", "attempts", "available_at", "lease_until", "lease_owner", "last_error", "settled_at") ON "public"."event_outbox" TO outboxd;


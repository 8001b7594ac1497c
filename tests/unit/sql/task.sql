---- statement 0 (parameters 28 7 1 0 2)
WITH in_flight AS MATERIALIZED (
  SELECT p."id" AS id, coalesce(p."next_run_at", '-infinity') AS due FROM "task_execution" p WHERE p."state" IN ('PENDING', 'SENDING') AND p."state" = 'SENDING'
   ORDER BY coalesce(p."next_run_at", '-infinity'), p."id" LIMIT $1::int),
over AS MATERIALIZED (
  SELECT c.ctid AS r, c."id" AS id, c."id" AS ord, coalesce(c."next_run_at", '-infinity') AS due, CASE WHEN c."state" = 'PENDING' THEN 0 WHEN ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE) THEN 3 ELSE 2 END AS taken,
         coalesce(pg_column_size(c."payload"), 0) AS bytes
    FROM "task_execution" c WHERE c."id" = ANY (ARRAY(SELECT f.id FROM in_flight f WHERE f.due <= now() LIMIT $3::int))
     AND (coalesce(c."next_run_at", '-infinity') <= now() AND c."state" = 'SENDING' AND coalesce(c."next_run_at", '-infinity') <= now() AND coalesce(c."attempts", 0) < CASE WHEN ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE) THEN $4::int ELSE least(2, $4::int) END) IS TRUE
     FOR UPDATE SKIP LOCKED),
fresh AS MATERIALIZED (
  SELECT c.ctid AS r, c."id" AS id, c."id" AS ord, coalesce(c."next_run_at", '-infinity') AS due, CASE WHEN c."state" = 'PENDING' THEN 0 WHEN ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE) THEN 3 ELSE 2 END AS taken,
         coalesce(pg_column_size(c."payload"), 0) AS bytes
    FROM "task_execution" c WHERE c."state" IN ('PENDING', 'SENDING') AND coalesce(c."next_run_at", '-infinity') <= now() AND c."state" = 'PENDING'
   ORDER BY coalesce(c."next_run_at", '-infinity'), c."id"
   LIMIT greatest(0, least($3::int - (SELECT count(*) FROM over), $1::int - (SELECT count(*) FROM in_flight)))
     FOR UPDATE SKIP LOCKED),
scanned AS MATERIALIZED (SELECT * FROM over UNION ALL SELECT * FROM fresh),
candidate AS MATERIALIZED (
  SELECT * FROM (
    SELECT *, sum(bytes) OVER (ORDER BY due, ord ROWS UNBOUNDED PRECEDING) - bytes AS before FROM scanned) s
   WHERE before = 0 OR before < $5::bigint),
claimed AS (
  UPDATE "task_execution" o SET "state" = 'SENDING', "attempts" = least(coalesce("attempts", 0), 2147483646) + 1, "next_run_at" = now() + $2::interval, "updated_at" = now()
   WHERE o.ctid = ANY (ARRAY(SELECT r FROM candidate))
  RETURNING o."id" AS id, o."id" AS ord, o."id"::text AS key, o."attempts"::int AS attempts, $4::int AS max,
            o."next_run_at"::timestamptz AS lease, o."created_at"::timestamptz AS created, o."payload"::text AS payload,
            NULL::text AS headers, NULL::text AS topic, NULL::text AS partition,
            NULL::bigint AS millis, o."event_type"::text AS template_0, o."aggregate_id"::text AS template_1)
SELECT tail.*, claimed.id::text, NULL::text, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,
       CASE WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 3) THEN 3
            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 2) THEN 2
            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 1) THEN 1 ELSE 0 END,
       claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis, claimed.template_0, claimed.template_1
  FROM (SELECT (SELECT count(*) FROM scanned) AS candidates,
               0::bigint AS parked, 0::bigint AS parked_own, 0::bigint AS parked_foreign, 0::bigint AS pulled, (SELECT count(*) FROM candidate) AS free,
               first.due::timestamptz AS first_due, first.ord::text AS first_id,
               last.due::timestamptz AS last_due, last.ord::text AS last_id, CASE WHEN (SELECT count(*) FROM in_flight) + (SELECT count(*) FROM fresh) >= $1::int THEN 1 ELSE 0 END AS full
          FROM (VALUES (1)) one LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due, ord LIMIT 1) first ON true LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due DESC, ord DESC LIMIT 1) last ON true) tail
  FULL JOIN claimed ON false ORDER BY claimed.ord NULLS FIRST;

---- statement 1 (parameters 28 7 1 0 9 10 2)
WITH in_flight AS MATERIALIZED (
  SELECT p."id" AS id, coalesce(p."next_run_at", '-infinity') AS due FROM "task_execution" p WHERE p."state" IN ('PENDING', 'SENDING') AND p."state" = 'SENDING'
   ORDER BY coalesce(p."next_run_at", '-infinity'), p."id" LIMIT $1::int),
over AS MATERIALIZED (
  SELECT c.ctid AS r, c."id" AS id, c."id" AS ord, coalesce(c."next_run_at", '-infinity') AS due, CASE WHEN c."state" = 'PENDING' THEN 0 WHEN ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE) THEN 3 ELSE 2 END AS taken,
         coalesce(pg_column_size(c."payload"), 0) AS bytes
    FROM "task_execution" c WHERE c."id" = ANY (ARRAY(SELECT f.id FROM in_flight f WHERE f.due <= now() LIMIT $3::int))
     AND (coalesce(c."next_run_at", '-infinity') <= now() AND c."state" = 'SENDING' AND coalesce(c."next_run_at", '-infinity') <= now() AND coalesce(c."attempts", 0) < CASE WHEN ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE) THEN $4::int ELSE least(2, $4::int) END) IS TRUE
     FOR UPDATE SKIP LOCKED),
fresh AS MATERIALIZED (
  SELECT c.ctid AS r, c."id" AS id, c."id" AS ord, coalesce(c."next_run_at", '-infinity') AS due, CASE WHEN c."state" = 'PENDING' THEN 0 WHEN ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE) THEN 3 ELSE 2 END AS taken,
         coalesce(pg_column_size(c."payload"), 0) AS bytes
    FROM "task_execution" c WHERE c."state" IN ('PENDING', 'SENDING') AND coalesce(c."next_run_at", '-infinity') <= now() AND c."state" = 'PENDING'
     AND (coalesce(c."next_run_at", '-infinity'), c."id") > ($5::timestamptz, $6::text::bigint)
   ORDER BY coalesce(c."next_run_at", '-infinity'), c."id"
   LIMIT greatest(0, least($3::int - (SELECT count(*) FROM over), $1::int - (SELECT count(*) FROM in_flight)))
     FOR UPDATE SKIP LOCKED),
scanned AS MATERIALIZED (SELECT * FROM over UNION ALL SELECT * FROM fresh),
candidate AS MATERIALIZED (
  SELECT * FROM (
    SELECT *, sum(bytes) OVER (ORDER BY due, ord ROWS UNBOUNDED PRECEDING) - bytes AS before FROM scanned) s
   WHERE before = 0 OR before < $7::bigint),
claimed AS (
  UPDATE "task_execution" o SET "state" = 'SENDING', "attempts" = least(coalesce("attempts", 0), 2147483646) + 1, "next_run_at" = now() + $2::interval, "updated_at" = now()
   WHERE o.ctid = ANY (ARRAY(SELECT r FROM candidate))
  RETURNING o."id" AS id, o."id" AS ord, o."id"::text AS key, o."attempts"::int AS attempts, $4::int AS max,
            o."next_run_at"::timestamptz AS lease, o."created_at"::timestamptz AS created, o."payload"::text AS payload,
            NULL::text AS headers, NULL::text AS topic, NULL::text AS partition,
            NULL::bigint AS millis, o."event_type"::text AS template_0, o."aggregate_id"::text AS template_1)
SELECT tail.*, claimed.id::text, NULL::text, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,
       CASE WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 3) THEN 3
            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 2) THEN 2
            WHEN claimed.id IN (SELECT id FROM candidate WHERE taken = 1) THEN 1 ELSE 0 END,
       claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis, claimed.template_0, claimed.template_1
  FROM (SELECT (SELECT count(*) FROM scanned) AS candidates,
               0::bigint AS parked, 0::bigint AS parked_own, 0::bigint AS parked_foreign, 0::bigint AS pulled, (SELECT count(*) FROM candidate) AS free,
               first.due::timestamptz AS first_due, first.ord::text AS first_id,
               last.due::timestamptz AS last_due, last.ord::text AS last_id, CASE WHEN (SELECT count(*) FROM in_flight) + (SELECT count(*) FROM fresh) >= $1::int THEN 1 ELSE 0 END AS full
          FROM (VALUES (1)) one LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due, ord LIMIT 1) first ON true LEFT JOIN
               (SELECT due, ord FROM candidate ORDER BY due DESC, ord DESC LIMIT 1) last ON true) tail
  FULL JOIN claimed ON false ORDER BY claimed.ord NULLS FIRST;

---- statement 2 (parameters 0 7)
WITH candidate AS MATERIALIZED (
  SELECT c.ctid AS r FROM "task_execution" c
   WHERE c."state" IN ('PENDING', 'SENDING') AND coalesce(c."next_run_at", '-infinity') <= now() AND c."state" = 'SENDING' AND coalesce(c."next_run_at", '-infinity') <= now() AND coalesce(c."attempts", 0) >= 2 AND coalesce(c."attempts", 0) < $1::int AND NOT ((c."next_run_at" = c."updated_at" + $2::interval) IS NOT TRUE)
   ORDER BY coalesce(c."next_run_at", '-infinity'), c."id" LIMIT 100 FOR UPDATE SKIP LOCKED),
head AS MATERIALIZED (SELECT r FROM candidate),
one AS MATERIALIZED (
  SELECT o.ctid AS r, CASE WHEN o."state" = 'PENDING' THEN 0 WHEN ((o."next_run_at" = o."updated_at" + $2::interval) IS NOT TRUE) THEN 3 ELSE 2 END AS taken FROM "task_execution" o
   WHERE o.ctid = ANY (ARRAY(SELECT r FROM head))
     AND o."state" IN ('PENDING', 'SENDING') AND coalesce(o."next_run_at", '-infinity') <= now() AND o."state" = 'SENDING' AND coalesce(o."next_run_at", '-infinity') <= now() AND coalesce(o."attempts", 0) >= 2 AND coalesce(o."attempts", 0) < $1::int AND NOT ((o."next_run_at" = o."updated_at" + $2::interval) IS NOT TRUE)
   LIMIT 1 FOR UPDATE SKIP LOCKED),
claimed AS (
  UPDATE "task_execution" o SET "state" = 'SENDING', "attempts" = least(coalesce("attempts", 0), 2147483646) + 1, "next_run_at" = now() + $2::interval, "updated_at" = now()
   WHERE o.ctid = ANY (ARRAY(SELECT r FROM one))
  RETURNING o."id" AS id, o."id" AS ord, o."id"::text AS key, o."attempts"::int AS attempts, $1::int AS max,
            o."next_run_at"::timestamptz AS lease, o."created_at"::timestamptz AS created, o."payload"::text AS payload,
            NULL::text AS headers, NULL::text AS topic, NULL::text AS partition,
            NULL::bigint AS millis, o."event_type"::text AS template_0, o."aggregate_id"::text AS template_1)
SELECT tail.*, claimed.id::text, NULL::text, claimed.key, claimed.attempts, claimed.max, claimed.lease, claimed.created,
       CASE WHEN claimed.id IS NOT NULL THEN (SELECT taken FROM one) END,
       claimed.payload, claimed.headers, claimed.topic, claimed.partition, claimed.millis, claimed.template_0, claimed.template_1
  FROM (SELECT 0::bigint AS candidates, 0::bigint AS parked, 0::bigint AS parked_own, 0::bigint AS parked_foreign, 0::bigint AS pulled, (SELECT count(*) FROM one) AS free,
               NULL::timestamptz AS first_due, NULL::text AS first_id,
               NULL::timestamptz AS last_due, NULL::text AS last_id, 0 AS full) tail
  FULL JOIN claimed ON false ORDER BY claimed.id NULLS FIRST;

---- statement 3 (parameters 7 0)
WITH over AS MATERIALIZED (
  SELECT p."id" AS id, ((p."next_run_at" = p."updated_at" + $1::interval) IS NOT TRUE) AS late FROM "task_execution" p
   WHERE p."state" IN ('PENDING', 'SENDING') AND coalesce(p."next_run_at", '-infinity') <= now() AND p."state" = 'SENDING' AND coalesce(p."next_run_at", '-infinity') <= now() AND coalesce(p."attempts", 0) >= $2::int
   ORDER BY coalesce(p."next_run_at", '-infinity'), p."id" LIMIT 500 FOR UPDATE SKIP LOCKED)
UPDATE "task_execution" o SET "state" = 'FAILED', "next_run_at" = '9999-12-31Z'::timestamptz, "updated_at" = now()
     , "last_error" = (CASE WHEN x.late THEN 'no result within 10m' ELSE 'lease expired' END
                       || format(', attempt %s of %s', o."attempts", $2::int))::text
  FROM over x WHERE o."id" BETWEEN x.id AND x.id
RETURNING o."id"::text, x.late::int, (o."state" = 'FAILED')::int;

---- statement 4 (parameters 12 18 19 11 29)
WITH asked AS MATERIALIZED (
  SELECT o."id" AS id, CASE WHEN o."state" = 'SENDING' THEN coalesce(o."next_run_at" = x.lease, false) END AS held
    FROM unnest($1::timestamptz[], $2::int[], $3::int[]
       ) AS x (lease, first, last
       ) JOIN "task_execution" o ON o."id" = ANY (($4::text[])[x.first:x.last]::bigint[])
     FOR UPDATE OF o),
written AS (
  UPDATE "task_execution" o SET "next_run_at" = now() + $5::interval, "updated_at" = now()
    FROM asked x WHERE o."id" BETWEEN x.id AND x.id AND x.held)
SELECT a.id::text FROM asked a WHERE a.held IS NOT FALSE UNION ALL
SELECT u.id FROM unnest($4::text[]) u (id) WHERE (u.id IN (SELECT a.id::text FROM asked a)) IS NOT TRUE;

---- statement 5 (parameters 11 12 13 14 15 16)
WITH asked AS MATERIALIZED (
  SELECT o."id" AS id, CASE WHEN o."state" = 'SENDING' THEN coalesce(o."next_run_at" = x.lease, false) END AS held, x.status, x.delay, x.back
       , x.error
    FROM unnest($1::text[]::bigint[], $2::timestamptz[], $3::text[], $4::interval[], $5::int[]
       , $6::text[]
       ) AS x (id, lease, status, delay, back
       , error
       ) JOIN "task_execution" o ON o."id" BETWEEN x.id AND x.id
     FOR UPDATE OF o),
written AS (
  UPDATE "task_execution" o
     SET "state" = x.status, "attempts" = greatest(coalesce(o."attempts", 0) - x.back, 0),
         "next_run_at" = CASE WHEN x.status = 'FAILED' THEN '9999-12-31Z'::timestamptz ELSE now() + x.delay END
       , "last_error" = coalesce(x.error, o."last_error")::text
         , "updated_at" = now()
    FROM asked x WHERE o."id" BETWEEN x.id AND x.id AND x.held)
SELECT a.id::text FROM asked a WHERE a.held IS NOT FALSE UNION ALL
SELECT u.id FROM unnest($1::text[]) u (id) WHERE (u.id IN (SELECT a.id::text FROM asked a)) IS NOT TRUE;

---- statement 6 (parameters)
WITH
freed AS (
  UPDATE "task_execution" SET "next_run_at" = now(), "updated_at" = now()
   WHERE "id" = ANY (ARRAY(
     SELECT p."id" FROM "task_execution" p
      WHERE p."state" IN ('PENDING', 'SENDING') AND coalesce(p."next_run_at", '-infinity') = '9999-12-31Z'::timestamptz AND p."state" IN ('PENDING', 'SENDING')
      ORDER BY p."id" LIMIT 10000 FOR UPDATE SKIP LOCKED
   )) RETURNING 1)
SELECT count(*) FROM freed;

---- statement 7 (parameters 0 7)
WITH front AS MATERIALIZED (
  SELECT p."state" AS status, coalesce(p."next_run_at", '-infinity') AS due, coalesce(p."next_run_at", '-infinity') AS lease_end,
         (coalesce(p."attempts", 0) >= 2 AND coalesce(p."attempts", 0) < $1::int AND NOT ((p."next_run_at" = p."updated_at" + $2::interval) IS NOT TRUE)) AS crasher, coalesce(p."attempts", 0) >= $1::int AS used_up,
         CASE WHEN isfinite(p."created_at") THEN (extract(epoch FROM now() - p."created_at") * 1000000)::bigint END AS age, p."id"::text AS key
    FROM "task_execution" p WHERE p."state" IN ('PENDING', 'SENDING') AND coalesce(p."next_run_at", '-infinity') < '9999-12-31Z'::timestamptz
   ORDER BY coalesce(p."next_run_at", '-infinity'), p."id" LIMIT 100000),
back AS MATERIALIZED (
  SELECT p."state" AS status, coalesce(p."next_run_at", '-infinity') AS due, coalesce(p."next_run_at", '-infinity') AS lease_end,
         (coalesce(p."attempts", 0) >= 2 AND coalesce(p."attempts", 0) < $1::int AND NOT ((p."next_run_at" = p."updated_at" + $2::interval) IS NOT TRUE)) AS crasher, coalesce(p."attempts", 0) >= $1::int AS used_up,
         CASE WHEN isfinite(p."created_at") THEN (extract(epoch FROM now() - p."created_at") * 1000000)::bigint END AS age, p."id"::text AS key
    FROM "task_execution" p WHERE p."state" IN ('PENDING', 'SENDING') AND coalesce(p."next_run_at", '-infinity') >= '9999-12-31Z'::timestamptz
   ORDER BY coalesce(p."next_run_at", '-infinity'), p."id" LIMIT 100000),
unfinished AS (SELECT * FROM front UNION ALL SELECT * FROM back),
n AS (
  SELECT count(*) FILTER (WHERE status = 'PENDING' AND due < '9999-12-31Z'::timestamptz) AS pending,
         count(*) FILTER (WHERE status = 'PENDING' AND due >= '9999-12-31Z'::timestamptz) AS parked,
         count(*) FILTER (WHERE status = 'SENDING') AS in_flight,
         count(*) FILTER (WHERE status IS NULL
                          OR status NOT IN ('PENDING', 'SENDING', 'SENT', 'FAILED')) AS unknown,
         count(*) FILTER (WHERE status = 'SENDING' AND due <= now() AND lease_end <= now() AND crasher) AS suspects,
         count(*) FILTER (WHERE status = 'SENDING' AND due <= now() AND lease_end <= now() AND used_up) AS exhausted,
         max(CASE WHEN age < 0 THEN 0 ELSE age END) FILTER (WHERE status IN ('PENDING', 'SENDING')) AS oldest
    FROM unfinished)
SELECT pending, parked, in_flight, NULL::bigint, NULL::bigint, 0::bigint,
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
  SELECT p."id" AS id, p."id" AS ord, p."id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "task_execution" p WHERE p."state" = 'FAILED' AND (p."last_error" LIKE 'skipped: %') IS NOT TRUE AND ($1::text IS NULL OR strpos(p."last_error"::text, $1::text) > 0)
   LIMIT $2::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 9 (parameters 22 21 1)
WITH picked AS MATERIALIZED (
  SELECT p."id" AS id, p."id" AS ord, p."id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "task_execution" p WHERE p."state" = 'FAILED' AND (p."last_error" LIKE 'skipped: %') IS NOT TRUE AND ($1::text IS NULL OR strpos(p."last_error"::text, $1::text) > 0)
     AND p."id" BETWEEN $2::text::text AND $2::text::text
   ORDER BY p."id", p."id"
   LIMIT $3::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 10 (parameters 11 20 22 1)
WITH picked AS MATERIALIZED (
  SELECT f.* FROM (SELECT DISTINCT id FROM unnest($1::text[]::bigint[]) g (id)) u CROSS JOIN LATERAL (
  SELECT p."id" AS id, p."id" AS ord, p."id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "task_execution" p WHERE p."id" BETWEEN u.id AND u.id AND (p."state" = 'FAILED' AND ((p."last_error" LIKE 'skipped: %') IS NOT TRUE OR $2::int > 0)) IS TRUE AND ($3::text IS NULL OR strpos(p."last_error"::text, $3::text) > 0) OFFSET 0) f
   LIMIT $4::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 11 (parameters 11 20 22 1)
WITH picked AS MATERIALIZED (
  SELECT f.* FROM (SELECT DISTINCT id FROM unnest($1::text[]::bigint[]) g (id)) u CROSS JOIN LATERAL (
  SELECT p."id" AS id, p."id" AS ord, p."id"::text AS key, coalesce(p."attempts", 0) AS tries, p."last_error"::text AS error
    FROM "task_execution" p WHERE p."id" BETWEEN u.id AND u.id AND ((p."state" = 'FAILED' OR (p."state" = 'PENDING' AND $2::int > 0)) AND (p."last_error" LIKE 'skipped: %') IS NOT TRUE) IS TRUE AND ($3::text IS NULL OR strpos(p."last_error"::text, $3::text) > 0) OFFSET 0) f
   LIMIT $4::int)
SELECT id::text, key, tries, error FROM picked ORDER BY ord;

---- statement 12 (parameters 11 20 22)
UPDATE "task_execution" SET "state" = 'PENDING', "attempts" = 0, "next_run_at" = now(), "updated_at" = now()
     , "last_error" = CASE WHEN "last_error" LIKE 'skipped: %' THEN NULL ELSE "last_error" END
 WHERE "id" = ANY (ARRAY(
   SELECT p."id" FROM unnest($1::text[]::bigint[]) u (id) JOIN "task_execution" p ON p."id" BETWEEN u.id AND u.id
    WHERE (p."state" = 'FAILED' AND ((p."last_error" LIKE 'skipped: %') IS NOT TRUE OR $2::int > 0)) IS TRUE AND ($3::text IS NULL OR strpos(p."last_error"::text, $3::text) > 0) FOR UPDATE OF p))
RETURNING "id"::text, "id"::text,
          NULL::timestamptz;

---- statement 13 (parameters 23 11 20 22)
UPDATE "task_execution" SET "state" = 'FAILED', "updated_at" = now()
     , "last_error" = ('skipped: ' || $1::text)::text
 WHERE "id" = ANY (ARRAY(
   SELECT p."id" FROM unnest($2::text[]::bigint[]) u (id) JOIN "task_execution" p ON p."id" BETWEEN u.id AND u.id
    WHERE ((p."state" = 'FAILED' OR (p."state" = 'PENDING' AND $3::int > 0)) AND (p."last_error" LIKE 'skipped: %') IS NOT TRUE) IS TRUE AND ($4::text IS NULL OR strpos(p."last_error"::text, $4::text) > 0) FOR UPDATE OF p))
RETURNING "id"::text, "id"::text,
          CASE WHEN coalesce("attempts", 0) > 0 THEN coalesce("next_run_at", '-infinity')::timestamptz END;

---- statement 14 (parameters)
WITH
freed AS (
  UPDATE "task_execution" SET "next_run_at" = now(), "updated_at" = now()
   WHERE "id" = ANY (ARRAY(
     SELECT p."id" FROM "task_execution" p
      WHERE p."state" IN ('PENDING', 'SENDING') AND coalesce(p."next_run_at", '-infinity') = '9999-12-31Z'::timestamptz AND p."state" IN ('PENDING', 'SENDING')
      ORDER BY p."id" LIMIT 10000 FOR UPDATE SKIP LOCKED
   )) RETURNING 1)
SELECT count(*) FROM freed;

---- statement 15 (parameters)
SELECT FROM "task_execution" c WHERE true LIMIT 0;

---- statement 16 (parameters)
WITH front AS MATERIALIZED (
  SELECT p.ctid AS r, pg_column_size(p."payload") AS size, p."state"::text AS status,
         NULL::text AS owner
    FROM "task_execution" p WHERE p."state" IN ('PENDING', 'SENDING') ORDER BY coalesce(p."next_run_at", '-infinity'), p."id" LIMIT 10000),
newest AS MATERIALIZED (
  SELECT p."state"::text AS status FROM "task_execution" p ORDER BY p."id" DESC LIMIT 10000),
large AS MATERIALIZED (SELECT r FROM front ORDER BY size DESC NULLS LAST LIMIT 20),
strange AS (
  SELECT status FROM front UNION SELECT status FROM newest)
SELECT coalesce((SELECT max(octet_length(p."payload"::text)) FROM "task_execution" p WHERE p.ctid = ANY (ARRAY(SELECT r FROM large))), 0)::text,
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

CREATE TABLE "task_execution" (
  "id" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  "task_type" text NOT NULL,
  "payload" jsonb,
  "state" text NOT NULL DEFAULT 'PENDING'
    CHECK ("state" IN ('PENDING', 'SENDING', 'SENT', 'FAILED')),
  "attempts" integer NOT NULL DEFAULT 0,
  "next_run_at" timestamptz NOT NULL DEFAULT now(),
  "last_error" text,
  "created_at" timestamptz NOT NULL DEFAULT now(),
  "updated_at" timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

COMMENT ON TABLE "task_execution" IS 'Outbox: rows written here in a transaction are published to Kafka by outboxd.';
COMMENT ON COLUMN "task_execution"."payload" IS 'Kafka value; NULL is a tombstone.';
COMMENT ON COLUMN "task_execution"."state" IS 'Written by outboxd: see outboxd states.';
COMMENT ON COLUMN "task_execution"."attempts" IS 'Claims so far, the present one included.';
COMMENT ON COLUMN "task_execution"."next_run_at" IS 'Not sent before; infinity holds the row; 9999-12-31 is written by outboxd.';
COMMENT ON COLUMN "task_execution"."last_error" IS 'Why the row was not delivered the last time.';

-- What is due, and nothing else: each claim begins here.
CREATE INDEX "task_execution_due"
  ON "task_execution" ("next_run_at", "id") WHERE "state" IN ('PENDING', 'SENDING');
-- What is in flight: each claim counts it.
CREATE INDEX "task_execution_in_flight"
  ON "task_execution" ("next_run_at", "id") WHERE "state" = 'SENDING';

-- Wakes the relay at once. It fires once a statement, and PostgreSQL folds repeats within a transaction; without it
-- rows wait for the next poll. Commits that notify wait for one another: with very many writers leave it out.
CREATE OR REPLACE FUNCTION "task_execution_notify"() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS
'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';
CREATE TRIGGER "task_execution_notify" AFTER INSERT ON "task_execution"
  FOR EACH STATEMENT EXECUTE FUNCTION "task_execution_notify"('outboxd_orders');

-- A role that can relay and nothing else:
-- CREATE ROLE outboxd LOGIN;
-- GRANT SELECT ON "task_execution" TO outboxd;
-- GRANT UPDATE ("state", "attempts", "next_run_at", "last_error", "updated_at") ON "task_execution" TO outboxd;

COMMIT;

---- schema --adopt
-- What an existing table may lack for source orders. Run it with psql as the table's owner, outside of a transaction;
-- what is there already is left as it is. When a statement fails on the lock timeout, run all of it again. An index
-- that was interrupted stays behind INVALID: drop it first. On a partitioned table leave out CONCURRENTLY.
SET lock_timeout = '2s';

-- Columns the relay writes. None of these rewrites the table; each takes ACCESS EXCLUSIVE for a moment.
-- Rows that are there before the column count as sent; those that come after are pending.
DO $outboxd$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '"task_execution"'::regclass AND NOT attisdropped AND attname = 'state') THEN
    ALTER TABLE "task_execution" ADD COLUMN "state" text NOT NULL DEFAULT 'SENT';
    ALTER TABLE "task_execution" ALTER COLUMN "state" SET DEFAULT 'PENDING';
  END IF;
END $outboxd$;
ALTER TABLE "task_execution" ADD COLUMN IF NOT EXISTS "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "task_execution" ADD COLUMN IF NOT EXISTS "next_run_at" timestamptz NOT NULL DEFAULT now();
ALTER TABLE "task_execution" ADD COLUMN IF NOT EXISTS "last_error" text;
ALTER TABLE "task_execution" ADD COLUMN IF NOT EXISTS "created_at" timestamptz NOT NULL DEFAULT now();
ALTER TABLE "task_execution" ADD COLUMN IF NOT EXISTS "updated_at" timestamptz NOT NULL DEFAULT now();

-- The first index is for "next_run_at" NOT NULL. If it may be NULL, index
-- coalesce("next_run_at", '-infinity') instead.

-- What is due, and nothing else: each claim begins here.
CREATE INDEX CONCURRENTLY IF NOT EXISTS "task_execution_due"
  ON "task_execution" ("next_run_at", "id") WHERE "state" IN ('PENDING', 'SENDING');
-- What is in flight: each claim counts it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS "task_execution_in_flight"
  ON "task_execution" ("next_run_at", "id") WHERE "state" = 'SENDING';

-- Room for HOT updates in pages written from now on, and an early vacuum (a partitioned table takes these
-- on its partitions only).
ALTER TABLE "task_execution" SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_cost_delay = 0);

-- Wakes the relay at once. It fires once a statement, and PostgreSQL folds repeats within a transaction; without it
-- rows wait for the next poll. Commits that notify wait for one another: with very many writers leave it out.
CREATE OR REPLACE FUNCTION "task_execution_notify"() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS
'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';
-- SHARE ROW EXCLUSIVE for a moment: it waits for the transactions that are writing, and writers wait for it.
DO $outboxd$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = '"task_execution"'::regclass AND tgname = 'task_execution_notify') THEN
    CREATE TRIGGER "task_execution_notify" AFTER INSERT ON "task_execution"
      FOR EACH STATEMENT EXECUTE FUNCTION "task_execution_notify"('outboxd_orders');
  END IF;
END $outboxd$;

-- A role that can relay and nothing else:
-- CREATE ROLE outboxd LOGIN;
-- GRANT SELECT ON "task_execution" TO outboxd;
-- GRANT UPDATE ("state", "attempts", "next_run_at", "last_error", "updated_at") ON "task_execution" TO outboxd;


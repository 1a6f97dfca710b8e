"""The ledger's statements. A transition is `LOOK`, the pure rule, and one of `OPEN`, `REOPEN` and `MOVE`.

Each of those three moves the head first, from exactly the row that `LOOK` saw: if anybody appended meanwhile it writes nothing at all
and returns no row. Everybody takes the head before a slot, so that no two transitions can wait for each other.
"""

from typing import Final

_LOOK: Final = """
WITH asked AS (
    SELECT customer, period, kind, attempt FROM opsguard.ledger_reservations WHERE reservation = %(reservation)s
    UNION ALL
    SELECT %(customer)s, %(period)s, %(kind)s, 0 WHERE %(customer)s::text IS NOT NULL
)
SELECT head.sequence, head.digest, head.server, head.accepted_at,
       'HERE',
       clock_timestamp(),
       EXISTS (
           SELECT FROM opsguard.leases AS writer
           WHERE writer.scope = %(scope)s AND writer.holder = %(writer)s AND writer.fence = %(scope_fence)s
             AND writer.expires_at > clock_timestamp()
       ),
       asked.customer, asked.period, asked.kind, asked.attempt,
       slot.reservation, slot.attempt, slot.fence, slot.holder, slot.lease_scope, slot.lease_fence,
       CASE WHEN slot.lease_scope IS NOT NULL THEN writer.expires_at ELSE slot.lease_expires_at END,
       held.state, held.row_sequence, held.body, held.since,
       last.digest, last."row",
       (SELECT max(sequence) FROM opsguard.ledger_rows WHERE reservation = slot.reservation),
       EXISTS (
           SELECT FROM opsguard.ledger_rows
           WHERE reservation = CASE WHEN asked.customer IS NULL THEN %(reservation)s ELSE left(encode(sha256(convert_to(
               '{"attempt":' || coalesce(slot.attempt, 0) + 1
               || ',"slot":"' || asked.customer || ':' || asked.period || ':' || asked.kind || '"}', 'UTF8')), 'hex'), 32) END
       )
FROM opsguard.ledger_head AS head
LEFT JOIN asked ON true
LEFT JOIN opsguard.ledger_slots AS slot
       ON slot.customer = asked.customer AND slot.period = asked.period AND slot.kind = asked.kind
LEFT JOIN opsguard.leases AS writer ON writer.scope = slot.lease_scope AND writer.fence = slot.lease_fence
LEFT JOIN opsguard.ledger_reservations AS held
       ON held.reservation = slot.reservation AND held.customer = slot.customer AND held.period = slot.period
      AND held.kind = slot.kind AND held.attempt = slot.attempt
LEFT JOIN opsguard.ledger_rows AS last ON last.sequence = held.row_sequence
WHERE head.id = 1
"""
_HERE: Final = """
CASE WHEN pg_is_in_recovery() THEN '' ELSE (
    SELECT system_identifier || '/' || ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
           || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
           || '/' || to_regclass('opsguard.ledger_head')::oid
    FROM pg_control_system()
) END
"""
"""System identifier, timeline, database and table: an older dump that is restored into the same database makes its tables anew.
The timeline is the one that is written to now: a control file keeps the old one for minutes after a
replica was promoted. It is asked every time (20 microseconds), since a pooler may keep our connection and change the server behind it."""

LOOK: Final = _LOOK.replace("'HERE'", _HERE)
LOOK_UNNAMED: Final = _LOOK.replace("'HERE'", "''")
"""The slot is given, or the reservation of any attempt at it. The last column: there are rows of an attempt after the claimed one (the
claim was deleted or set back by hand, or these tables were restored from an older copy than the rows)."""

MAY_ASK: Final = """
SELECT has_function_privilege('pg_control_system()', 'EXECUTE') AND has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE')
   AND has_function_privilege('pg_current_wal_lsn()', 'EXECUTE')
"""

LOCK_HEAD: Final = "SELECT FROM opsguard.ledger_head WHERE id = 1 FOR UPDATE"

OPEN: Final = """
WITH moved AS (
    UPDATE opsguard.ledger_head SET sequence = %(sequence)s, digest = %(digest)s, server = %(server)s
    WHERE id = 1 AND sequence = %(sequence)s - 1 AND digest = %(previous)s
    RETURNING sequence
), claimed AS (
    INSERT INTO opsguard.ledger_slots (customer, period, kind, reservation, attempt, fence, holder)
    SELECT %(customer)s, %(period)s, %(kind)s, %(reservation)s, %(attempt)s, %(fence)s, %(holder)s FROM moved
    RETURNING lease_expires_at
), projected AS (
    INSERT INTO opsguard.ledger_reservations (reservation, customer, period, kind, attempt, state, row_sequence, body, since)
    SELECT %(reservation)s, %(customer)s, %(period)s, %(kind)s, %(attempt)s, %(state)s, sequence, %(body)s, %(since)s FROM moved
), appended AS (
    INSERT INTO opsguard.ledger_rows (sequence, reservation, digest, "row")
    SELECT sequence, %(reservation)s, %(digest)s, %(row)s FROM moved
)
SELECT lease_expires_at, clock_timestamp() FROM claimed
"""

REOPEN: Final = """
WITH moved AS (
    UPDATE opsguard.ledger_head SET sequence = %(sequence)s, digest = %(digest)s, server = %(server)s
    WHERE id = 1 AND sequence = %(sequence)s - 1 AND digest = %(previous)s
    RETURNING sequence
), claimed AS (
    UPDATE opsguard.ledger_slots
    SET reservation = %(reservation)s, attempt = %(attempt)s, fence = %(fence)s, holder = %(holder)s,
        lease_expires_at = NULL, lease_scope = NULL, lease_fence = NULL
    FROM moved WHERE customer = %(customer)s AND period = %(period)s AND kind = %(kind)s
    RETURNING lease_expires_at
), projected AS (
    INSERT INTO opsguard.ledger_reservations (reservation, customer, period, kind, attempt, state, row_sequence, body, since)
    SELECT %(reservation)s, %(customer)s, %(period)s, %(kind)s, %(attempt)s, %(state)s, sequence, %(body)s, %(since)s FROM moved
), appended AS (
    INSERT INTO opsguard.ledger_rows (sequence, reservation, digest, "row")
    SELECT sequence, %(reservation)s, CASE WHEN EXISTS (SELECT FROM claimed) THEN %(digest)s END, %(row)s FROM moved
)
SELECT lease_expires_at, clock_timestamp() FROM claimed
"""

MOVE: Final = """
WITH writer AS MATERIALIZED (
    SELECT expires_at FROM opsguard.leases WHERE scope = %(scope)s AND fence = %(scope_fence)s FOR SHARE
), moved AS (
    UPDATE opsguard.ledger_head SET sequence = %(sequence)s, digest = %(digest)s, server = %(server)s
    WHERE id = 1 AND sequence = %(sequence)s - 1 AND digest = %(previous)s
      AND CASE %(only_if)s
          WHEN 'writer lives' THEN EXISTS (SELECT FROM writer WHERE expires_at > clock_timestamp())
          WHEN 'holder is gone' THEN NOT EXISTS (SELECT FROM writer WHERE expires_at > clock_timestamp())
          ELSE true END
    RETURNING sequence
), claimed AS (
    UPDATE opsguard.ledger_slots
    SET fence = %(fence)s, holder = %(holder)s,
        lease_expires_at = CASE WHEN %(lease)s = 'kept' THEN lease_expires_at
                                WHEN %(lease)s = 'own' THEN clock_timestamp() + %(lease_seconds)s::float8 * interval '1 second' END,
        lease_scope = CASE %(lease)s WHEN 'kept' THEN lease_scope WHEN 'scope' THEN %(scope)s END,
        lease_fence = CASE %(lease)s WHEN 'kept' THEN lease_fence WHEN 'scope' THEN %(scope_fence)s END
    FROM moved
    WHERE customer = %(customer)s AND period = %(period)s AND kind = %(kind)s AND reservation = %(reservation)s
      AND (%(only_if)s <> 'holder is gone' OR lease_scope IS NOT NULL OR coalesce(lease_expires_at <= clock_timestamp(), true))
    RETURNING CASE WHEN lease_scope IS NOT NULL THEN (SELECT expires_at FROM writer) ELSE lease_expires_at END AS lease_ends_at
), projected AS (
    UPDATE opsguard.ledger_reservations
    SET state = %(state)s, row_sequence = moved.sequence, body = %(body)s, since = %(since)s
    FROM moved WHERE reservation = %(reservation)s
    RETURNING row_sequence
), appended AS (
    INSERT INTO opsguard.ledger_rows (sequence, reservation, digest, "row")
    SELECT sequence, %(reservation)s,
           CASE WHEN EXISTS (SELECT FROM claimed) AND EXISTS (SELECT FROM projected) THEN %(digest)s END, %(row)s
    FROM moved
)
SELECT lease_ends_at, clock_timestamp() FROM claimed
"""
"""A condition that no longer holds once the head has moved (the lease was renewed while this waited for the slot) leaves a row without
digest, which the table refuses: the statement is undone as a whole."""

_AS_SEEN: Final = "WHERE id = 1 AND sequence = %(sequence)s - 1 AND digest = %(previous)s"
_AS_KNOWN: Final = (
    _AS_SEEN
    + """
      AND server IN ('', %(server)s) AND %(server)s = 'HERE' AND accepted_at IS NOT DISTINCT FROM %(doubt_before)s::timestamptz
      AND clock_timestamp() BETWEEN %(at)s - interval '0.1 s' AND %(at)s + interval '0.1 s'
"""
)
_IS_FREE: Final = """
      AND NOT EXISTS (
          SELECT FROM opsguard.ledger_slots WHERE customer = %(customer)s AND period = %(period)s AND kind = %(kind)s
      ) AND NOT EXISTS (SELECT FROM opsguard.ledger_rows WHERE reservation = %(reservation)s)
"""
_IS_OURS: Final = """
      AND EXISTS (
          SELECT FROM opsguard.ledger_slots AS slot JOIN opsguard.ledger_reservations AS held ON held.reservation = slot.reservation
          WHERE slot.customer = %(customer)s AND slot.period = %(period)s AND slot.kind = %(kind)s
            AND slot.reservation = %(reservation)s AND slot.attempt = %(attempt)s
            AND slot.fence = %(known_fence)s AND slot.holder = %(known_holder)s AND held.row_sequence = %(known_row)s
      )
"""
_OPEN_UNSEEN: Final = OPEN.replace(_AS_SEEN, _AS_KNOWN + _IS_FREE)
_MOVE_UNSEEN: Final = MOVE.replace(_AS_SEEN, _AS_KNOWN + _IS_OURS)
OPEN_UNSEEN: Final = _OPEN_UNSEEN.replace("'HERE'", _HERE)
OPEN_UNSEEN_UNNAMED: Final = _OPEN_UNSEEN.replace("'HERE'", "''")
MOVE_UNSEEN: Final = _MOVE_UNSEEN.replace("'HERE'", _HERE)
MOVE_UNSEEN_UNNAMED: Final = _MOVE_UNSEEN.replace("'HERE'", "''")
"""The same without a look before: see `ledger_known`."""

RENEW: Final = """
UPDATE opsguard.ledger_slots SET lease_expires_at = clock_timestamp() + %(seconds)s::float8 * interval '1 second'
WHERE customer = %(customer)s AND period = %(period)s AND kind = %(kind)s AND fence = %(fence)s AND holder = %(holder)s
  AND CASE WHEN lease_scope IS NULL THEN lease_expires_at > clock_timestamp() ELSE EXISTS (
      SELECT FROM opsguard.leases AS writer
      WHERE writer.scope = lease_scope AND writer.fence = lease_fence AND writer.expires_at > clock_timestamp()
  ) END
RETURNING fence
"""

GIVE_UP: Final = """
UPDATE opsguard.ledger_slots SET lease_expires_at = clock_timestamp()
WHERE customer = %(customer)s AND period = %(period)s AND kind = %(kind)s AND fence = %(fence)s AND holder = %(holder)s
  AND lease_scope IS NULL AND lease_expires_at > clock_timestamp()
"""

_STORE: Final = """
SELECT head.server AS accepted, 'HERE' AS here,
       'NAME' || '/' || current_database() || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) AS identity
FROM opsguard.ledger_head AS head WHERE head.id = 1
"""
STORE: Final = _STORE.replace("'HERE'", _HERE).replace("'NAME'", "(SELECT system_identifier FROM pg_control_system())")
STORE_UNNAMED: Final = _STORE.replace("'HERE'", "''").replace("'NAME'", "''")

ROWS: Final = 'SELECT sequence, digest, "row" FROM opsguard.ledger_rows ORDER BY sequence'

COPY_ROWS: Final = 'COPY opsguard.ledger_rows (sequence, reservation, digest, "row") FROM STDIN'

LAST_ROWS: Final = "SELECT reservation, max(sequence) AS last FROM opsguard.ledger_rows GROUP BY reservation"

HOLDS_ANYTHING: Final = """
SELECT EXISTS (SELECT FROM opsguard.ledger_rows) OR EXISTS (SELECT FROM opsguard.ledger_reservations)
    OR EXISTS (SELECT FROM opsguard.ledger_slots)
"""

ROWS_AND_ANSWERS: Final = """
SELECT stored.sequence, stored.digest, stored."row", stored.reservation,
       answer.reservation, answer.customer, answer.period, answer.kind, answer.attempt, answer.state, answer.since, answer.body,
       claim.customer, claim.period, claim.kind, claim.attempt, claim.fence, claim.holder
FROM opsguard.ledger_rows AS stored
LEFT JOIN opsguard.ledger_reservations AS answer ON answer.row_sequence = stored.sequence
LEFT JOIN opsguard.ledger_slots AS claim ON claim.reservation = answer.reservation
ORDER BY stored.sequence
"""

ANSWERS_WITHOUT_ROWS: Final = """
SELECT answer.reservation, answer.row_sequence FROM opsguard.ledger_reservations AS answer
LEFT JOIN opsguard.ledger_rows AS stored ON stored.sequence = answer.row_sequence
WHERE stored.sequence IS NULL ORDER BY answer.row_sequence
"""

READ_SLOWLY: Final = "SET LOCAL idle_in_transaction_session_timeout = '1h'"
"""Who reads all rows may pause between two pages: it holds no lock, only old row versions."""

COPY_ANSWERS: Final = """
COPY opsguard.ledger_reservations (reservation, customer, period, kind, attempt, state, row_sequence, body, since) FROM STDIN
"""

COPY_CLAIMS: Final = """
COPY opsguard.ledger_slots (customer, period, kind, reservation, attempt, fence, holder) FROM STDIN
"""

CLAIMS_WITHOUT_ANSWERS: Final = """
SELECT claim.customer, claim.period, claim.kind, claim.reservation FROM opsguard.ledger_slots AS claim
LEFT JOIN opsguard.ledger_reservations AS answer ON answer.reservation = claim.reservation
WHERE answer.reservation IS NULL ORDER BY claim.customer, claim.period, claim.kind
"""

ANSWER_ANEW: Final = """
INSERT INTO opsguard.ledger_reservations (reservation, customer, period, kind, attempt, state, row_sequence, body, since)
VALUES (:reservation, :customer, :period, :kind, :attempt, :state, :row_sequence, :body, :since)
ON CONFLICT (reservation) DO UPDATE
SET customer = excluded.customer, period = excluded.period, kind = excluded.kind, attempt = excluded.attempt,
    state = excluded.state, row_sequence = excluded.row_sequence, body = excluded.body, since = excluded.since
"""

CLAIM_ANEW: Final = """
INSERT INTO opsguard.ledger_slots AS slot (customer, period, kind, reservation, attempt, fence, holder)
VALUES (:customer, :period, :kind, :reservation, :attempt, :fence, :holder)
ON CONFLICT (customer, period, kind) DO UPDATE
SET reservation = excluded.reservation, attempt = excluded.attempt, fence = excluded.fence, holder = excluded.holder,
    lease_expires_at = CASE WHEN slot.fence = excluded.fence AND slot.holder = excluded.holder THEN slot.lease_expires_at END,
    lease_scope = CASE WHEN slot.fence = excluded.fence AND slot.holder = excluded.holder THEN slot.lease_scope END,
    lease_fence = CASE WHEN slot.fence = excluded.fence AND slot.holder = excluded.holder THEN slot.lease_fence END
"""
"""A lease is kept only if it was this holder's; without one, whoever was sending is taken to be gone, and looked after."""

"""A person accepts that this database is the ledger from now on, though another one was: a backup was restored, or a replica promoted.

What was granted and sent there since is not in here. So whatever is open becomes `unknown`, and `accepted_at` is kept: what was due
before then opens as `unknown` too (`transition.reserve`).
"""

from collections.abc import Iterator

from sqlalchemy import Connection, func, update

from guards.delivery import transition
from guards.delivery.entry import Reservation
from resources.ledger.interface import Repair
from resources.state import clock, ledger_look
from resources.state import ledger_sql as sql
from resources.state.errors import Altered
from resources.state.ledger_steps import Call, Place, parameters, steps_of
from resources.state.ledger_verify import anchor, store_and_server
from resources.state.tables import ledger_head


def accept(connection: Connection) -> Iterator[Repair]:
    """In the caller's transaction, which holds the head, after a verification without faults."""
    now = clock.now(connection)
    here = store_and_server(connection).here
    head = anchor(connection)
    cursor = connection.connection.cursor()
    for slot, held in ledger_look.unfinished(connection).items():
        assert isinstance(held, Reservation)  # verified just now, and nobody else can write
        place = Place(head, here, now)
        steps = steps_of(held, transition.doubt(held), place)
        assert isinstance(steps, tuple)
        for step in steps:
            written = cursor.execute(sql.MOVE, parameters(step, _DOUBT, place)).fetchone()
            if written is None:
                raise Altered(f"{slot.key} could not be put in doubt: nothing was accepted")
            head = step.row.head
            yield Repair(f"{slot.key} was {held.state} and is unknown", slot=slot)
    latest = func.greatest(ledger_head.c.accepted_at, now)  # a clock that was set back takes no doubt away
    connection.execute(update(ledger_head).values(server=here, accepted_at=latest))
    yield Repair("it was accepted that this database is the ledger from now on: what was due before is in doubt")


_DOUBT = Call(what="the doubt", rule=lambda _, __: transition.Ruling())

"""An `Authorization` cannot be had any other way than from the gate. Each test is one way that somebody might try."""

import copy
import pickle
from typing import Any

import pytest

from guards.gate import Authorization, Authorized, Fresh, NotAuthorized, gate, require_authentic
from tests.unit.plans import NOW, WRITE, decision, lease, plan

pytestmark = pytest.mark.fast

SCOPE = "numbers/main"
FIELDS = ("scope", "plan_digest", "approval_id", "approved_by", "holder", "fence")


def authorized() -> Authorization:
    outcome = gate(
        flags=WRITE,
        plan=plan(),
        decision=decision(),
        current=plan(),
        fresh=Fresh({"a": 0, "b": 0}),
        lease=lease(),
        now=NOW,
    )
    assert isinstance(outcome, Authorized)
    return outcome.authorization


def test_the_gates_own_is_authentic_and_says_what_it_is_for() -> None:
    real = authorized()
    assert require_authentic(real, scope=SCOPE) is real
    assert [getattr(real, field) for field in FIELDS] == [SCOPE, plan().digest, 1, "ada", "run-1", 7]
    assert repr(real) == f"Authorization(numbers/main, plan {plan().short}, approval 1, fence 7)"


def test_it_is_for_its_own_scope_only() -> None:
    with pytest.raises(NotAuthorized, match=r"^this authorization is for numbers/main, not for numbers/other$"):
        require_authentic(authorized(), scope="numbers/other")


@pytest.mark.parametrize("arguments", [(), (SCOPE,), ("a", "b", 1, "c", "d", 2)])
def test_it_cannot_be_built(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"^only guards\.gate\.gate makes an Authorization$"):
        Authorization(*arguments)
    with pytest.raises(TypeError, match=r"^only guards\.gate\.gate makes an Authorization$"):
        Authorization(scope=SCOPE)


def test_it_cannot_be_copied_or_pickled() -> None:
    real = authorized()
    with pytest.raises(TypeError, match=r"^an Authorization is not copied$"):
        copy.copy(real)
    with pytest.raises(TypeError, match=r"^an Authorization is not copied$"):
        copy.deepcopy(real)
    with pytest.raises(TypeError, match=r"^an Authorization is not copied$"):
        copy.deepcopy([real])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=r"^an Authorization does not leave its process$"):
            pickle.dumps(real, protocol)


def test_it_cannot_be_subclassed() -> None:
    with pytest.raises(TypeError, match=r"^an Authorization has no subclasses$"):
        type("Mine", (Authorization,), {})


@pytest.mark.parametrize("field", [*FIELDS, "another"])
def test_it_cannot_be_changed(field: str) -> None:
    real = authorized()
    with pytest.raises(AttributeError, match=rf"^an Authorization is immutable: {field}$"):
        setattr(real, field, "numbers/other")
    with pytest.raises(AttributeError, match=rf"^an Authorization is immutable: {field}$"):
        delattr(real, field)
    assert real.scope == SCOPE


def _bare() -> object:
    return object.__new__(Authorization)


def _filled() -> object:
    made = object.__new__(Authorization)
    for field in FIELDS:
        object.__setattr__(made, field, getattr(authorized(), field))
    return made


class _EqualToAll:
    scope = SCOPE

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(_KEPT)


class _Pretender(_EqualToAll):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Authorization


_KEPT = authorized()


@pytest.mark.parametrize(
    "forge",
    [_bare, _filled, _EqualToAll, _Pretender, lambda: None, lambda: SCOPE, lambda: True, lambda: Authorization, object],
    ids=["bare", "filled", "equal to all", "pretends its class", "None", "text", "True", "the class", "object"],
)
def test_a_forged_one_opens_nothing(forge: Any) -> None:
    with pytest.raises(NotAuthorized, match=r"^no writer without an authorization from guards\.gate\.gate$"):
        require_authentic(forge(), scope=SCOPE)


def test_two_of_the_gates_own_are_not_equal() -> None:
    assert authorized() != authorized()


@pytest.mark.parametrize("field", FIELDS)
def test_one_that_was_bent_past_its_own_guard_opens_nothing(field: str) -> None:
    real = authorized()
    object.__setattr__(real, field, "numbers/other")
    for scope in (SCOPE, "numbers/other"):
        with pytest.raises(NotAuthorized, match=r"^this authorization was changed after guards\.gate\.gate made it$"):
            require_authentic(real, scope=scope)

"""The data of every schedule, finished or not: a program, the links so far, and the specs that remain after each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, TypeVar, cast, get_args

import attrs

from fireiron.base.contract import asked, checked, checked_methods, rest_of
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.base.later import Later
from fireiron.base.link import here
from fireiron.base.records import evolve
from fireiron.front.describe import describe
from fireiron.front.kinds import ALL, Kind, kind_of
from fireiron.front.offers import LINKS, REFINES, instead, offered
from fireiron.front.roles import Role, role_name
from fireiron.language.decompositions import Decomposition, Load, Prolog, Split, Tile
from fireiron.language.programs import Layers, Products
from fireiron.language.specs import MatMul, Task
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.check import limits
    from fireiron.check import links as rules
    from fireiron.front.fallback import Fallback
    from fireiron.language import residual as residuals
    from fireiron.language.residual import Operand, Residual
else:
    residuals = Later("fireiron.language.residual")
    limits, rules = Later("fireiron.check.limits"), Later("fireiron.check.links")

P = ParamSpec("P")
R = TypeVar("R")


NO_LETTERS: Mapping[str, str] = {}
# Links whose arguments differ from kind to kind: the functions of each kind check them.
BY_KIND = frozenset({"tile", "split", "epilog", "each"})
SOME = frozenset({"promote", "online", "skew", "order"})  # refinements of splits that only some kinds have


class RefinementError(DecompositionError, AttributeError):
    """Report a method that the last link, or this kind of chain, does not have."""


@attrs.frozen(eq=False, repr=False, slots=False)
class State:
    """Hold a program, the links so far, and the spec that remains.

    Args:
        program: what the schedule computes.
        links: the decompositions, outermost first.
        origin: the residual spec before the first link.
        trail: the residual specs after each link.
        around: for a nested chain: the outer chain, and the part's name in errors ("" for the outer chain's last link).
        fallback: for a schedule that `best` chose: the next best schedules, for where this one spills or crashes the
            compiler. A chain to which a link is appended has none.
        letters: names of dims in the spec that remains, by the users' names, where these differ. Example: {"i": "M"} in
            the chain of a step.
    """

    program: Task
    links: tuple[Decomposition, ...]
    _origin: Residual
    _trail: tuple[Residual, ...] = ()
    _around: tuple[State, str] | None = None
    _fallback: Fallback | None = None
    _letters: Mapping[str, str] = attrs.field(default=NO_LETTERS, alias="letters")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked_methods(cls, DecompositionError, where_of, leave={"atom"}, skip=BY_KIND)

    @classmethod
    def __fits__(cls, value: object, kinds: tuple[Any, ...]) -> bool:
        """Say whether a value is a schedule, finished or not, for an annotation like `FoldChain[MatMul]`."""
        return isinstance(value, State) and value._kind.spec in {
            one for kind in kinds for one in get_args(kind) or (kind,)
        }

    @property
    def _kind(self) -> Kind:
        """Return the chain's kind, which says what links it may have."""
        return kind_of(self.program.spec, self._origin)

    @property
    def matmul(self) -> MatMul:
        """Return the spec of a product's chain."""
        return self._spec("matmul", MatMul)

    @property
    def products(self) -> Products:
        """Return the spec of a chain of several products."""
        return self._spec("products", Products)

    @property
    def layers(self) -> Layers:
        """Return the spec of a chain of layers."""
        return self._spec("layers", Layers)

    @property
    def computed(self) -> Program:
        """Return the program of a program's chain."""
        return self._spec("computed", Program)

    def _spec(self, name: str, kind: type[R]) -> R:
        if not isinstance(self.program.spec, kind):
            raise AttributeError(name)  # so that __getattr__ says what there is
        return self.program.spec

    @property
    def residual(self) -> Residual:
        """Return the spec that remains after the last link."""
        return self._trail[-1] if self._trail else self._origin

    @property
    def steps(self) -> Program:
        """Return a program of steps for what the chain computes, with its links' prologs, epilog ops and conversions.

        Example:
            >>> from fireiron import Matrix, Move
            >>> print(Move(Matrix(64, 32), Matrix(64, 32, "f16")).steps)
            move(X[64, 32].f32.GL) over m 64, n 32
              Y[m, n] = f16(X[m, n])
        """
        from fireiron.language.as_steps import steps_of

        return self._check(steps_of, self.program.spec, self.links)

    @property
    def where(self) -> str:
        """Return the path in the tree, for errors."""
        root = self._path or f"{self._origin.short} @ {self._origin.level}"
        return " > ".join((root, *(describe(link) for link in self.links)))

    @property
    def _path(self) -> str:
        """Return the path of a nested chain: the links that lead to it; "" for a whole schedule."""
        if self._around is None:
            return ""
        around, name = self._around
        return f"{around.where} > {name}" if name else around.where

    def _check(self, rule: Callable[..., Any], *args: Any) -> Any:
        """Apply a rule; locate its error at the method that the user called."""
        try:
            return rule(*args)
        except FireironError as error:
            raise error.located(here(), self.where) from None

    def _wrong(self, code: str, message: str, fix: str) -> DecompositionError:
        """Make an error of this chain, with link and path."""
        return DecompositionError(code, message, fix=fix, link=here(), path=self.where)

    def _as(self, cls: type[State], link: Decomposition) -> Any:
        """Append a link; the class of the new chain says what may come next."""
        trail = (*self._trail, residuals.apply(link, self.residual))
        links = (*self.links, link)
        return cls(self.program, links, self._origin, trail, self._around, letters=self._letters)._within_limits()

    def _within_limits(self) -> Self:
        """Check the last link against the limits of blocks and of the spec's architecture."""
        link, arch = self.links[-1], self.program.arch
        if arch is not None:
            self._check(limits.features_fit, link, arch)
        if isinstance(link, Tile):
            self._check(limits.threads_fit, link, self._before, self.residual)
        elif isinstance(link, Load | Split) and arch is not None and self._around is None:
            self._check(limits.shared_fits, self.program.spec, self.links, (self._origin, *self._trail[:-1]), arch)
        return self

    def _refine(self, **changes: Any) -> Self:
        """Replace the last link by a copy with changed fields."""
        link = evolve(self.links[-1], **changes)
        before = self._trail[-2] if len(self._trail) > 1 else self._origin
        trail = (*self._trail[:-1], residuals.apply(link, before))
        return evolve(self, links=(*self.links[:-1], link), _trail=trail)._within_limits()

    @property
    def _before(self) -> Residual:
        return self._trail[-2] if len(self._trail) > 1 else self._origin

    def _has(self, name: str) -> bool:
        """Say whether chains of this kind have a method: a link, or a refinement of the last link."""
        if name in LINKS:
            return name in self._kind.links
        of_some = name in SOME or (name == "pipeline" and isinstance(self.links[-1], Tile))
        return not of_some or name in self._kind.refinements

    def _next_may_come(self, name: str = "") -> str:
        """Write the fix for an unknown method: the one with the closest name, and all that may come next."""
        return instead(name, sorted(m for m in dir(type(self)) if not m.startswith("_") and self._has(m)))

    def _only(self, name: str) -> None:
        """Refuse a method that chains of this kind do not have.

        Raises:
            DecompositionError: `wrong-spec`.
        """
        if not self._has(name):
            having = " and ".join(k.word for k in ALL if name in k.links | k.refinements)
            raise self._wrong(
                "wrong-spec",
                f"{self.residual.short} has no {name}, which only {having} have",
                self._next_may_come(),
            )

    def _no_such(self, name: str) -> RefinementError:
        """Make the error for a method that the last link, or this kind of chain, does not have."""
        last = describe(self.links[-1]) if self.links else self.residual.short
        owner = REFINES.get(name)
        why = f"{name} refines {owner}, and the last link is {last}" if owner else f"nothing here is called {name}"
        return RefinementError(
            "no-such-link", f"{last} has no {name}: {why}", fix=self._next_may_come(name), link=here(), path=self.where
        )

    if not TYPE_CHECKING:  # a type checker that saw it would take every name for a method

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in LINKS and self.residual.closed:
                return functools.partial(self._closed_link, name)
            raise self._no_such(name)

    def _closed_link(self, name: str, *args: Any, **named: Any) -> NoReturn:
        """Refuse a link after `done`."""
        raise self._wrong(
            "chain-closed",
            f"{name} comes after done(): {self.residual.short} is executed already",
            "move it before done()",
        )

    def __dir__(self) -> list[str]:
        """List the methods that can come next."""
        return offered(filter(self._has, super().__dir__()), self.residual, self.links)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and (self.program, self.links, self._origin) == (
            other.program,
            other.links,
            other._origin,
        )

    def __hash__(self) -> int:
        return hash((self.program, self.links, self._origin))

    def __str__(self) -> str:
        if self._around is not None or any(not isinstance(link, Prolog) for link in self.links):
            return self._words
        from fireiron.language.words import steps_in_words

        return "\n".join((self._words, *(f"  {line}" for line in steps_in_words(self.steps))))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._words}>"

    @property
    def _words(self) -> str:
        return " ".join((str(self._origin), *(f".{describe(link)}" for link in self.links)))

    def _operand(self, operand: Role | Tensor | str) -> Operand:
        """Return the operand that a link names."""
        given = operand if isinstance(operand, Tensor) else None
        return self._check(rules.operand, self.residual, role_name(operand), given)

    def _nested(self, origin: Residual, name: str, cls: type[State], letters: Mapping[str, str] = NO_LETTERS) -> Any:
        """Start a nested chain of a Move, a layer or a step; `name` is its name in errors."""
        return cls(self.program, (), origin, (), (self, name), letters=letters)

    def _ended(
        self,
        strategy: Callable[..., Any],
        part: State,
        called: tuple[str, str],
        message: str,
        fix: str,
        uncalled: tuple[str, str] | None = None,
    ) -> tuple[Decomposition, ...]:
        """Run a strategy on a nested chain, and return the links that it makes; it must close the chain.

        Args:
            strategy: the user's function.
            part: the chain of a Move, a layer or a step.
            called: the strategy's name in errors, and the code of the error for an unfinished chain.
            message: message of that error; {} is replaced by what remains.
            fix: fix of that error.
            uncalled: message and fix for a strategy that returns a function: `cp_async` instead of `cp_async()`.

        Raises:
            DecompositionError: the code of `called`. SpecError: `function-arguments`.
        """
        # A strategy is a user's function: nothing but this check holds it to its type.
        result = cast(object, asked(strategy, part, said=called[0]))
        if isinstance(result, State):
            if result._kind is part._kind and result.residual.closed:
                return result.links
            raise self._wrong(called[1], message.format(result.residual), fix)
        if uncalled is not None and callable(result):
            raise self._wrong(called[1], *uncalled)
        raise self._wrong(called[1], message.format(repr(result)), fix)


def kind_in(chain: State) -> Kind:
    """Return a chain's kind."""
    return chain._kind  # pyright: ignore[reportPrivateUsage]


def where_of(chain: State) -> str:
    """Return the path of a chain in the tree, for errors."""
    return chain.where


def link_of(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a function that makes a link against its annotations; the first argument is the chain."""
    return checked(function, family=DecompositionError, where=where_of, leave={"chain", *rest_of(function)})

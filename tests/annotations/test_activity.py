import pickle

import numpy as np
import pytest

from activerules.annotations.activity import (
    KINDS,
    Active,
    Annotation,
    Const,
    Duplicated,
    alternatives,
)
from activerules.annotations.signature import (
    Forward,
    Reverse,
    ReverseSplitNoPrimal,
    ReverseWithPrimal,
)
from activerules.errors import ActivityError, NotYetSupported, UnknownOption


def test_an_annotation_keeps_its_value_and_shadow():
    x, dx = np.ones(2), np.zeros(2)
    pair = Duplicated(x, dx)
    assert pair.val is x
    assert pair.dval is dx
    with pytest.raises(AttributeError):
        pair.val = dx


def test_annotations_print_as_they_are_written_and_pickle():
    assert repr(Duplicated(1.0, 2.0)) == "Duplicated(1.0, 2.0)"
    assert repr(pickle.loads(pickle.dumps(Active(2.0)))) == "Active(2.0)"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (Active, "Active"),
        (Active | Const, "Active | Const"),
        (Const | Active["f8"], "Const | Active[f8]"),
        (Active["f8"] | Const, "Active[f8] | Const"),
        ((Const | Duplicated) | Active["f8"], "Const | Duplicated | Active[f8]"),
    ],
)
def test_alternatives_in_the_order_they_are_written(written, shown):
    assert " | ".join(map(repr, alternatives(written))) == shown


def test_annotation_stands_for_every_kind():
    assert tuple(a.kind for a in alternatives(Annotation)) == KINDS
    assert {a.type for a in alternatives(Annotation["f8"])} == {"f8"}


@pytest.mark.parametrize("written", [float, 3, Const | int])
def test_what_is_not_an_annotation_is_refused(written):
    with pytest.raises(TypeError, match="is not an annotation"):
        list(alternatives(written))


def test_with_primal_is_another_mode():
    assert Reverse.with_primal() == ReverseWithPrimal
    assert not Reverse.returns_primal
    assert pickle.loads(pickle.dumps(Reverse)) == Reverse


def test_a_notebook_shows_the_name_of_a_mode():
    assert Reverse.strong_zero()._repr_html_() == f"<code>{Reverse.strong_zero()}</code>"


def test_an_unknown_option_is_named():
    with pytest.raises(UnknownOption, match="no option 'strong_zeros'"):
        _ = Reverse.strong_zeros


def test_modes_of_other_functions_refuse_by_name():
    Forward.require_supported()
    with pytest.raises(ActivityError, match="ReverseSplitNoPrimal"):
        ReverseSplitNoPrimal.require_supported()


def test_options_make_other_modes():
    mode = Reverse.strong_zero().holomorphic()
    assert mode.options == {"strong_zero", "holomorphic"}
    assert str(mode.with_primal()) == "ReverseWithPrimal.holomorphic().strong_zero()"
    assert not Reverse.options


def test_the_parts_of_fast_are_options():
    assert Forward.fast().options == {"reassociate", "vector_math"}
    assert str(Forward.fast()) == "Forward.fast()"
    assert str(Reverse.fast(vector_math=False)) == "Reverse.fast(vector_math=False)"
    assert Reverse.fast(reassociate=False) == Reverse.vector_math()
    assert str(Reverse.strong_zero().vector_math()) == "Reverse.strong_zero().vector_math()"


def test_forward_mode_is_not_holomorphic():
    with pytest.raises(NotYetSupported, match=r"holomorphic\(\) of Forward"):
        Forward.holomorphic()

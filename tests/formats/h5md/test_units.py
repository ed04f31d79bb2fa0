"""The unit grammar: spellings, exact factors, dimensions, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema.formats.h5md.units import parse, scale_to_kinema

EV = 1.602176634e-19 * 6.02214076e23 / 1000


@pytest.mark.parametrize(
    ("text", "dimension", "factor"),
    [
        ("nm", "length", 10.0),
        ("nm+1", "length", 10.0),
        ("nm^1", "length", 10.0),
        ("nanometers", "length", 10.0),
        ("Angstrom", "length", 1.0),
        ("angstroms", "length", 1.0),
        ("A", "length", 1.0),
        ("Å", "length", 1.0),
        ("\u212b", "length", 1.0),
        ("pm", "length", 0.01),
        ("um", "length", 1e4),
        ("µm", "length", 1e4),
        ("μm", "length", 1e4),
        ("10-10 m", "length", 1.0),
        ("10+3 m", "length", 1e13),
        ("1e-9 m", "length", 10.0),
        ("bohr", "length", 0.529177210903),
        ("ps", "time", 1.0),
        ("fs", "time", 1e-3),
        ("10+3 fs", "time", 1.0),
        ("min", "time", 6e13),
        ("picosecond", "time", 1.0),
        ("nm ps-1", "velocity", 10.0),
        ("nm ps^-1", "velocity", 10.0),
        ("nm ps**-1", "velocity", 10.0),
        ("nm ps⁻¹", "velocity", 10.0),
        ("nm/ps", "velocity", 10.0),
        ("A ps-1", "velocity", 1.0),
        ("Angstrom/fs", "velocity", 1000.0),
        ("m s-1", "velocity", 0.01),
        ("kJ mol-1 nm-1", "force", 0.1),
        ("kJ/mol/nm", "force", 0.1),
        ("kJ/(mol nm)", "force", 0.1),
        ("kJ/(mol*nm)", "force", 0.1),
        ("kcal mol-1 angstrom-1", "force", 4.184),
        ("kcal/mol/A", "force", 4.184),
        ("kilojoule/mole/nanometer", "force", 0.1),
        ("eV/Angstrom", "force", EV),
        ("eV Angstrom-1", "force", EV),
        ("u nm ps-2", "force", 0.1),
        ("u", "mass", 1.0),
        ("g mol-1", "mass", 1.0),
        ("amu", "mass", 1.0),
        ("e", "charge", 1.0),
    ],
)
def test_factors(text, dimension, factor):
    assert scale_to_kinema(text, dimension) == pytest.approx(factor, rel=1e-15, abs=0)


def test_ampere_and_angstrom_share_a_letter():
    assert parse("A").exponents[3] == 1
    assert scale_to_kinema("A", "length") == 1.0
    assert scale_to_kinema("A s", "charge") == pytest.approx(1 / 1.602176634e-19)
    with pytest.raises(kn.ArgumentError, match="is not one of time"):
        scale_to_kinema("A", "time")


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        ("", "length", "empty"),
        ("ps", "length", "'ps' is not one of length"),
        ("nm2", "length", "is not one of length"),
        ("kJ mol-1", "force", "is not one of force"),
        ("sigma", "length", "symbol that is not known, 'sigma'"),
        ("nmm", "length", "'nmm'"),
        ("nm-", "length", "power"),
        ("nm^x", "length", "power"),
        ("nm^1.5", "length", "power"),
        ("(nm", "length", "parenthesis"),
        ("nm)", "length", r"'\)'"),
        ("/", "length", "lacks a factor"),
        ("nm/", "length", "lacks a factor"),
        ("nm & ps", "length", "'&'"),
        ("10+999 m", "length", "power"),
        ("1e99999 m", "length", "too long"),
        ("0-1 m", "length", "zero"),
        ("m/0", "length", "zero"),
        ("0 m", "length", "zero"),
        ("m" * 999, "length", "too long"),
        ("(" * 99 + "m", "length", r"'\('"),
    ],
)
def test_what_is_no_unit(text, dimension, message):
    with pytest.raises(kn.ArgumentError, match=message):
        scale_to_kinema(text, dimension)


@given(st.text(alphabet="nmpsAkJcal mol-1+^*/()0123456789.eV\u212bµ", max_size=30))
def test_any_text_is_a_unit_or_an_error(text):
    try:
        assert 0 < scale_to_kinema(text, "length") < float("inf")
    except kn.ArgumentError as error:
        assert "\n" not in str(error)

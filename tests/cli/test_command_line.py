"""The words of the command line before typer sees them."""

from kinema.cli.command_line import prepare


def test_one_option_takes_several_files() -> None:
    command = prepare(["rmsd", "-f", "a.xtc", "b.xtc", "c.xtc", "-s", "top.psf", "-f", "d.xtc"])
    expected = "rmsd -f a.xtc -f b.xtc -f c.xtc -s top.psf -f d.xtc".split()
    assert command.arguments == expected


def test_options_that_stand_anywhere_are_taken_out() -> None:
    command = prepare(["info", "--json", "a.xtc", "--debug", "-q"])
    assert command.arguments == ["info", "a.xtc"]
    assert (command.json, command.debug, command.quiet) == (True, True, True)


def test_the_typed_command_can_be_typed_again() -> None:
    command = prepare(["rmsd", "--select", "protein and name CA", "-f", "my file.xtc"])
    assert command.typed == "kinema rmsd --select 'protein and name CA' -f 'my file.xtc'"
    assert not (command.json or command.debug or command.quiet)


def test_an_option_without_value_is_left_for_typer_to_refuse() -> None:
    assert prepare(["rmsd", "-f", "-s", "top.psf"]).arguments == ["rmsd", "-f", "-s", "top.psf"]

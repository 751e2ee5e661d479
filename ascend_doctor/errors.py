"""The errors that mean something to the rest of the doctor."""


class DoctorError(Exception):
    """The doctor cannot go on; the message has the reason and the remedy. Exit 2."""


class DataError(DoctorError):
    """A given or shipped file is invalid; the message names file and place."""


class Unknown(Exception):  # noqa: N818 - a value that could not be told is a result, not an error
    """A check cannot tell; the message says what is missing."""


class Unresolved(Unknown):
    """A check cannot tell as a launch leaves a value to its shell; the message says which."""


class NeedsRoot(Unknown):
    """A check cannot tell because only root can see; the message says what."""


class NotApplicable(Exception):  # noqa: N818 - as Unknown
    """A check has no subject on this machine; the message says why."""

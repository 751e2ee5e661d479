"""Asks the parsers and validation of installed frameworks about launches, without starting them.

It runs in the interpreter of a stack (Python 3.8 or newer) and imports nothing of the doctor.
"""

"""The maximum achievable matmul FLOPS of a device: searched over shapes, timed, kept.

Importing this package imports neither torch nor numpy. :mod:`.search` is the algorithm alone,
:mod:`.timing` its clock, :mod:`.run` one search from options to outcome.
"""

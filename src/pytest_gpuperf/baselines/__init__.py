"""Stored baselines: what earlier runs measured, kept in the repository, and compared with.

``environment`` says what must be equal for a comparison, ``observation`` what one run leaves of a
measurement, ``model`` and ``document`` what the file holds, ``store`` how it is read and written,
``comparison`` how a run is judged against it.
"""

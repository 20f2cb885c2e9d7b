"""One module a section: results in, blocks out."""

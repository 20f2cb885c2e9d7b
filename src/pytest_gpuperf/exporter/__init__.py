"""Results and live samples for Prometheus: a textfile for node_exporter, or our own HTTP door."""

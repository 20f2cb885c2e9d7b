"""What is worth measuring: ready workloads with their FLOP and bytes as formulas."""

"""What everything else stands on: errors, checks, guarantees, randomness and the registry."""

"""Settings: everything in base, only differences in dev, test and prod."""

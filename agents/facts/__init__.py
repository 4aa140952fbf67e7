"""Value types that several rooms share. Pure: nothing here reads or changes a system."""

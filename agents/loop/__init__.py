"""The reconcile loop: observe, decide, act, report."""

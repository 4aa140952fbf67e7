"""How long jobs will run, and when waiting ones will start.

    outlook = Outlook.of(snapshot)                      # outlook.py; or grown event by event
    outlook.work(job, gpus, now)                        # the key of the fair order, GPU-seconds
    state = queue_state(snapshot, policy, outlook)      # queue_state.py
    start_estimates(state, seed=…)                      # starts.py: Estimate or None by job id
    starts_of(snapshot, policy, outlook, plan, …)       # of_pass.py: all of it, once a pass
    calibrate(own, history, kind)                       # calibration.py: what to tell, what to keep

A replay makes four calls on a `Forecaster` (asking.py): `submitted(job, snapshot, plan)` when a job
joins the queue, `passed(snapshot, plan)` with every pass, `started(job, now)` when it first starts,
`ended(job, now, ran_seconds)`; then `summary()` has its accuracy.
"""

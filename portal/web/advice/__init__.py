"""The advisor's page: a model and a task in, devices that hold it out."""

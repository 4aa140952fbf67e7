"""Search over jobs, nodes, projects and pages: a page, and the options of the command palette."""

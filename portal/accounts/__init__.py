"""Users, projects, memberships, API tokens and browser sessions."""

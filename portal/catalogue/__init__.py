"""What people start from: templates of requests, and which images a project may ask for."""

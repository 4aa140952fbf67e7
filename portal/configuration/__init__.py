"""What is set where: `manage.py show_settings`, and a warning about misspelt variables."""

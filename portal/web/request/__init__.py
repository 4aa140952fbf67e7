"""The request page: the form, its preview, the cards and the templates."""

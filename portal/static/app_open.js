// The page after Open hands its ticket to the app at once; without scripts, its button does.
document.querySelector("form[data-open-app]").submit();

// Tells the server the browser's time zone, before the first paint. A page that the server wrote on another
// clock is loaded once more; one that was posted, or of an account with a zone of its own, stays as it is.
{
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
  const cookie = `time_zone=${zone}`;
  const isTold = () => document.cookie.split("; ").includes(cookie);
  if (/^[\w/+-]+$/.test(zone) && !isTold()) {
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${cookie}; path=/; max-age=31536000; samesite=lax${secure}`;
    const { followsBrowser, zone: shown } = document.documentElement.dataset;
    if (followsBrowser !== undefined && shown !== zone && isTold()) location.reload();
  }
}

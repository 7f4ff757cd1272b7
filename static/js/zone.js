// Tells the server the viewer's time zone, for the times that it writes.
import { setCookie } from "./cookie.js";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) setCookie("tz", zone);

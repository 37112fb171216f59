-- For an Application whose waves order others: Argo CD itself waits for no Application since 1.8.
local health = obj.status ~= nil and obj.status.health or {}
return { status = health.status or "Progressing", message = health.message or "" }

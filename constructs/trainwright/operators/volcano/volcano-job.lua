-- Volcano has one word for the phase of a Job, and a message where there is something to say.
local meaning = {
  Completed = "Healthy",
  Failed = "Degraded",
  Terminated = "Degraded",
  Aborted = "Degraded",
}
local state = obj.status ~= nil and obj.status.state or {}
local phase = state.phase or ""
return { status = meaning[phase] or "Progressing", message = phase .. ": " .. (state.message or "") }

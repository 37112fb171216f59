-- KubeRay has no conditions on a RayJob: one word for the object, and one for the job in the cluster.
local meaning = {
  Complete = "Healthy",
  Failed = "Degraded",
  ValidationFailed = "Degraded",
  Suspending = "Suspended",
  Suspended = "Suspended",
}
local status = obj.status or {}
local word, job = status.jobDeploymentStatus or "", status.jobStatus or ""
local health = meaning[word] or "Progressing"
if word == "Complete" and (job == "FAILED" or job == "STOPPED") then
  health = "Degraded"
end
local message = status.message or status.reason or job
if word ~= "" then
  message = word .. ": " .. message
end
return { status = health, message = message }
